"""What holds for every report in every format."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from anydevice.cli.scan import command as scan
from anydevice.finding import Edit, Finding, Safety, Span
from anydevice.report import FORMATS, write
from anydevice.report.summary import IMPOSSIBLE, Report
from anydevice.rules.registry import all_rules

HERE = Path(__file__).parent
SCHEMAS = {
    "json": HERE.parents[1] / "src/anydevice/report/schema/report.schema.json",
    "sarif": HERE / "data/sarif-2.1.0.schema.json",
}


def _span(line: int = 3, column: int = 5, *, cell: int | None = None) -> Span:
    return Span(10, 18, line, column, line, column + 8, cell)


def _finding(path: str = "a.py", safety: Safety = Safety.SAFE, **changes: Any) -> Finding:
    values: dict[str, Any] = {
        "code": "ADA01",
        "name": "hardcoded-cuda-call",
        "path": path,
        "span": _span(),
        "message": "`x.cuda()` runs on CUDA only; write `.to(device)`",
        "safety": safety,
        "edits": () if safety is Safety.MANUAL else (Edit(_span(), "x.to(device)"),),
        "source": "y = x.cuda()",
    }
    return Finding(**{**values, **changes})


def _written(report: Report, format_: str) -> str:
    stream = io.StringIO()
    write(report, format_, stream)
    return stream.getvalue()


def _valid(report: Report, format_: str) -> Any:
    """The report as parsed from its text, once the format's schema has been asked."""
    parsed = json.loads(_written(report, format_))
    schema = json.loads(SCHEMAS[format_].read_bytes())
    jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).validate(parsed)
    return parsed


ODD = {
    "nothing": Report((), 0),
    "nothing found": Report((), 7, suppressed=2),
    "each safety": Report(tuple(_finding(safety=safety) for safety in Safety), 1),
    "a notebook": Report((_finding("n.ipynb", span=_span(cell=3)),), 1),
    "another alphabet": Report((_finding("ordner/mit leer ü.py", source="y = 'ä漢😀'.cuda()"),), 1),
    "no UTF-8 in a file name": Report((_finding("bad\udcff.py"),), 1, errors=("cannot read 'bad\udcff.py'",)),
    "markup and escapes": Report((_finding(source="x = '[red]' # \x1b[31m", message="[bold]50%\nof it[/]"),), 1),
    "an absolute path": Report((_finding("/a b/c.py"),), 1),
    "a code that no rule has": Report((_finding(code="ADR01", safety=Safety.MANUAL),), 1),
    "errors and notices": Report((), 1, notices=("cannot read 'x.cfg': binary file",), errors=("no",)),
    "after a fix": Report((), 1, fixed=(_finding(),), dropped=((_finding(), "it would not parse"),)),
}


@pytest.mark.parametrize("report", ODD.values(), ids=ODD)
class TestEveryReport:
    def test_is_valid_json(self, report: Report) -> None:
        parsed = _valid(report, "json")
        assert len(parsed["findings"]) == len(report.findings) == parsed["summary"]["findings"]

    def test_is_valid_sarif(self, report: Report) -> None:
        run = _valid(report, "sarif")["runs"][0]
        rules = run["tool"]["driver"]["rules"]
        assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == [f.code for f in report.findings]

    @pytest.mark.parametrize("format_", ["json", "sarif"])
    def test_is_ascii_for_machines(self, report: Report, format_: str) -> None:
        assert _written(report, format_).isascii()

    def test_has_one_workflow_command_a_line(self, report: Report) -> None:
        lines = _written(report, "github").splitlines()
        assert len(lines) == len(report.findings) + len(report.errors)
        assert all(line.startswith(("::warning ", "::notice ", "::error ")) for line in lines)

    def test_sends_no_control_character_to_a_terminal(self, report: Report) -> None:
        assert all(c == "\n" or c.isprintable() for c in _written(report, "text"))


CLOSINGS = [
    (Report((), 0), "No files were looked at.\n"),
    (Report((), 1), "No device-bound code found in 1 file.\n"),
    (Report((), 2, fixed=(_finding(),)), "Fixed 1 finding in 1 file.\nNothing is left to do in 2 files.\n"),
    (
        Report((), 2, dropped=((_finding(), "it would not parse"),)),
        "Not fixed: a.py:3:5 ADA01: it would not parse.\nNo device-bound code found in 2 files.\n",
    ),
]


@pytest.mark.parametrize(("report", "expected"), CLOSINGS, ids=[text.splitlines()[0] for _, text in CLOSINGS])
def test_text_ends_with_what_it_came_to(report: Report, expected: str) -> None:
    assert _written(report, "text") == expected


@pytest.mark.parametrize("format_", FORMATS)
def test_twenty_thousand_findings_take_seconds(format_: str) -> None:
    report = Report(tuple(_finding(f"pkg/{i // 10}.py") for i in range(20_000)), 2_000)
    start = time.process_time()
    _written(report, format_)
    assert time.process_time() - start < 10


def test_every_impossible_rule_exists() -> None:
    assert {rule.name for rule in all_rules()} >= IMPOSSIBLE


def test_the_command_line_offers_every_format() -> None:
    choice = next(parameter.type for parameter in scan.params if parameter.name == "format_")
    assert list(choice.choices) == list(FORMATS)  # type: ignore[attr-defined]
