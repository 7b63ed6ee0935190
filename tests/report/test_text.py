"""The report for people: what is printed, to the letter, and that nothing in the code under review can spoil it."""

from __future__ import annotations

import io
import time
from collections.abc import Callable

import pytest

from anydevice.finding import Finding, Safety
from anydevice.report.summary import Report
from anydevice.report.text import write


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def text(report: Report, *, statistics: bool = False) -> str:
    stream = io.StringIO()
    write(report, stream, statistics=statistics)
    return stream.getvalue()


def on_terminal(report: Report, monkeypatch: pytest.MonkeyPatch, **environment: str) -> str:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = Terminal()
    write(report, stream)
    return stream.getvalue()


GOLDEN = """\
train.py
  12:9 ADA01 [*] hardcoded-cuda-call: moves to CUDA only; write 'x.to(device)'
      |     x = x.cuda()  # [red] [/]
      |         ^^^^^^^^
  20:5 ADJ01 [!] load: moves to CUDA only; write 'x.to(device)'
      | s = torch.load("ä.pt")
      |     ^^^^^^^^^^

a/ops.py
  1:1 ADN01 cuda-only-kernel: is a CUDA kernel
      write it in PyTorch
      | kernel[grid](x)
      | ^^^^^^^^^^^^

look.ipynb
  cell 3, 2:1 ADA01 [*] hardcoded-cuda-call: moves to CUDA only; write 'x.to(device)'
      | x.cuda()
      | ^^^^^^^^
  cell 3, 4:5 ADB02 count: counts CUDA devices
      | n = count()
      |     ^^^^^^^

"""


def test_findings_are_grouped_by_file_and_underlined(sample: Report) -> None:
    assert text(sample).startswith(GOLDEN)


def test_table_has_a_row_per_file_and_a_total(sample: Report) -> None:
    table = text(sample)[len(GOLDEN) :].split("\n\n")[0]
    assert [line.split() for line in table.splitlines()[1:]] == [
        ["look.ipynb", "1", "-", "1", "-"],
        ["train.py", "1", "1", "-", "-"],
        ["a/ops.py", "-", "-", "-", "1"],
        ["total", "2", "1", "1", "1"],
    ]


def test_marks_are_explained_at_the_end(sample: Report) -> None:
    end = text(sample).splitlines()[-5:]
    assert end[0] == "2 findings silenced by comments."
    assert end[1].startswith("Found: 5 findings in 3 of 14 files: 2 automatic, 1 with --unsafe, 1 ")
    assert end[2:] == [
        "Run 'anydevice fix' to apply the 2 marked [*].",
        "Run 'anydevice fix --unsafe' to apply the 1 marked [!] too; read their diff.",
        "No fix is offered for those without a mark; each says what to do.",
    ]


@pytest.mark.parametrize(
    ("report", "said"),
    [
        pytest.param(Report((), 14), "No device-bound code found in 14 files.\n", id="nothing_found"),
        pytest.param(Report((), 1), "No device-bound code found in 1 file.\n", id="one_file"),
        pytest.param(Report((), 0), "No files were looked at.\n", id="no_files"),
        pytest.param(
            Report((), 3, errors=("cannot read 'x.py'",)),
            "1 error: this report is not complete.\nNo device-bound code found in 3 files.\n",
            id="errors_are_not_passed_over",
        ),
    ],
)
def test_empty_report_says_so(report: Report, said: str) -> None:
    assert text(report) == said


def test_fix_says_what_was_done_and_what_was_refused(make: Callable[..., Finding]) -> None:
    refused, left = make(line=3), make(safety=Safety.MANUAL, line=9)
    report = Report((refused, left), 5, fixed=(make(), make(path="b.py")), dropped=((refused, "it would not parse"),))
    lines = text(report).splitlines()
    assert "Fixed 2 findings in 2 files." in lines
    assert "Not fixed: train.py:3:5 ADA01: it would not parse." in lines
    assert any(line.startswith("Left: 2 findings in 1 of 5 files") for line in lines)
    assert not any("anydevice fix" in line for line in lines), "what was refused is not offered again"


def test_table_ends_after_twenty_files(make: Callable[..., Finding]) -> None:
    findings = tuple(make(path=f"m{number:02}.py") for number in range(23))
    lines = text(Report(findings, 30)).splitlines()
    assert any(line.split() == ["and", "3", "more", "files", "3", "-", "-", "-"] for line in lines)


def test_statistics_count_each_rule(sample: Report) -> None:
    assert "       2  ADA01 hardcoded-cuda-call\n       1  ADB02 count\n" in text(
        Report(tuple(f for f in sample.findings if f.code in {"ADA01", "ADB02"}), 3), statistics=True
    )


@pytest.mark.parametrize(
    ("source", "what", "shown"),
    [
        pytest.param("\tx.cuda()", "cuda", "      | \tx.cuda()\n      | \t  ^^^^\n", id="tabs_stay_tabs"),
        pytest.param(
            "网.cuda()", "cuda", "      | 网.cuda()\n      |    ^^^^\n", id="wide_characters_take_two_columns"
        ),
        pytest.param("e\u0301.cuda()", "cuda", "      | e\u0301.cuda()\n      |   ^^^^\n", id="accents_take_none"),
        pytest.param("[b]x[/b].cuda()", "[b]x", "      | [b]x[/b].cuda()\n      | ^^^^\n", id="brackets_are_text"),
        pytest.param(
            "'\x1b[2J'.cuda()", "cuda", "| '\\x1b[2J'.cuda()\n      |           ^^^^\n", id="escapes_are_shown"
        ),
        pytest.param("a" * 300 + ".cuda()", "cuda", "| " + "a" * 160 + "...\n\n", id="long_lines_are_cut"),
    ],
)
def test_source_line_is_shown_as_it_is_with_carets_below(
    make: Callable[..., Finding], source: str, what: str, shown: str
) -> None:
    assert shown in text(Report((make(source, what),), 1))


def test_finding_without_source_has_no_empty_line(make: Callable[..., Finding]) -> None:
    assert "|" not in text(Report((make("", ""),), 1))


def test_path_cannot_command_the_terminal(make: Callable[..., Finding]) -> None:
    assert "\x1b" not in text(Report((make(path="a\x1b]0;owned\x07.py"),), 1))


def test_terminal_gets_colour_and_the_same_words(sample: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = on_terminal(sample, monkeypatch)
    assert "\x1b[" in coloured
    assert "[red] [/]" in coloured


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["no_color", "dumb"])
def test_terminal_gets_no_colour_it_does_not_want(
    sample: Report, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    assert "\x1b" not in on_terminal(sample, monkeypatch, **environment)


def test_long_lines_are_not_wrapped(make: Callable[..., Finding]) -> None:
    message = "word " * 200 + "end"
    assert message in text(Report((make(message=message),), 1))


def test_twenty_thousand_findings_take_no_time(make: Callable[..., Finding], monkeypatch: pytest.MonkeyPatch) -> None:
    report = Report(tuple(make(path=f"m{number % 500}.py", line=number + 1) for number in range(20_000)), 500)
    start = time.perf_counter()
    on_terminal(report, monkeypatch)
    assert time.perf_counter() - start < 10  # seconds, about ten times what it takes here
