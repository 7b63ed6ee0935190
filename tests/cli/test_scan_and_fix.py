"""What `scan` and `fix` print, write and answer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anydevice import __version__

Anydevice = Callable[..., Any]

TIED = "import torch\n\nx = torch.ones(2)\ny = x.cuda()\n"
FREE = "import torch\n\nx = torch.ones(2)\n"
UNSAFE = "import torch\n\nx = torch.ones(2).cuda()\nprint(torch.cuda.FloatTensor)\n"


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


# -- exit status -----------------------------------------------------------------------------------------------

STATUS: dict[str, tuple[list[str], int]] = {
    "nothing to find": (["scan", "free.py"], 0),
    "something found": (["scan", "tied.py"], 1),
    "nothing to fix": (["fix", "free.py"], 0),
    "all of it fixed": (["fix", "tied.py"], 0),
    "a fix that is only shown": (["fix", "--diff", "tied.py"], 1),
    "nothing to show": (["fix", "--diff", "free.py"], 0),
    "a missing path": (["scan", "missing.py"], 2),
    "a missing path beside another": (["scan", "missing.py", "free.py"], 2),
    "an unknown verb": (["frobnicate"], 2),
    "an unknown option": (["scan", "--frobnicate"], 2),
    "an unknown format": (["scan", "--format", "xml"], 2),
    "no workers": (["scan", "-j", "0"], 2),
    "help": (["scan", "--help"], 0),
    "a version": (["--version"], 0),
}


@pytest.mark.parametrize(("arguments", "status"), STATUS.values(), ids=STATUS)
def test_exit_status(arguments: list[str], status: int, here: Path, anydevice: Anydevice) -> None:
    (here / "tied.py").write_text(TIED)
    (here / "free.py").write_text(FREE)
    assert anydevice(*arguments).status == status


STOPS = {
    "an unknown selector": (["scan", "--select", "ZZZ"], "no rule is called 'ZZZ'; 'anydevice rules' lists them"),
    "an unknown rule to ignore": (["fix", "--ignore", "nope"], "no rule is called 'nope'"),
    "a torch that is no version": (["scan", "--torch", "new"], "'new' is no version; write for example --torch 2.6"),
    "a missing path": (["scan", "missing.py"], "cannot read 'missing.py': no such file or directory"),
    "no repository": (["scan", "--diff-only", "main"], "git rev-parse failed: fatal: not a git repository"),
    "an option for a revision": (["scan", "--diff-only=--output=x"], "'--output=x' is no git revision"),
    "an unwritable report": (
        ["scan", "-o", "no/such/folder.json"],
        "cannot write 'no/such/folder.json': no such file or directory",
    ),
    "a misspelt command": (["scna"], "no command is called 'scna'; did you mean 'scan'?"),
    "a path without a command": (["."], "no command is called '.'; to look into this path, run 'anydevice scan .'"),
    "an unknown command": (["qqq"], "no command is called 'qqq'; 'anydevice --help' lists them"),
    "an unknown rule": (["rules", "nonsense"], "no rule is called 'nonsense'; 'anydevice rules' lists them"),
    "a demo in a used folder": (["demo", "--keep", "."], "'.' is not empty; name a new folder"),
}


@pytest.mark.parametrize(("arguments", "message"), STOPS.values(), ids=STOPS)
def test_what_cannot_be_done_is_one_line_and_status_2(
    arguments: list[str], message: str, here: Path, anydevice: Anydevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(here.parent))
    run = anydevice(*arguments)
    assert run.status == 2
    assert len(_lines(run.err)) == 1
    assert run.err.startswith(f"anydevice: {message}")


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version_is_answered_before_anything_is_loaded(flag: str) -> None:
    script = (
        "import sys; from anydevice.__main__ import main; main(); "
        "loaded = {name.split('.')[0] for name in sys.modules}; assert not loaded & {'click', 'rich', 'tree_sitter'}"
    )
    done = subprocess.run([sys.executable, "-c", script, flag], capture_output=True, text=True, check=True)
    assert done.stdout == f"anydevice {__version__}\n"


# -- scan ------------------------------------------------------------------------------------------------------


def test_scan_changes_nothing(here: Path, anydevice: Anydevice) -> None:
    (here / "tied.py").write_text(TIED)
    assert "tied.py\n  4:5 ADA01 [*] " in anydevice("scan").out
    assert (here / "tied.py").read_text() == TIED
    assert sorted(path.name for path in here.iterdir()) == ["setup.cfg", "tied.py"]


def test_scanned_code_is_not_run(here: Path, anydevice: Anydevice) -> None:
    (here / "evil.py").write_text("open('ran', 'w')\n" + TIED)
    (here / "setup.py").write_text("open('ran', 'w')\nimport torch\ntorch.ones(1).cuda()\n")
    (here / "conftest.py").write_text("open('ran', 'w')\n")
    (here / "user.py").write_text("import evil\n")
    anydevice("scan", "--imports")
    anydevice("fix", "--unsafe")
    assert not (here / "ran").exists()


SELECTIONS = {
    "all": ([], True),
    "a code": (["--select", "ADA01"], True),
    "a family": (["--select", "ada"], True),
    "a name": (["--select", "hardcoded-cuda-call"], True),
    "one of several": (["--select", "ADN,ADA"], True),
    "another": (["--select", "ADN"], False),
    "all but it": (["--ignore", "ADA01"], False),
    "all but its name": (["--ignore", "hardcoded-cuda-call"], False),
    "ignored though selected": (["--select", "ADA", "--ignore", "ADA01"], False),
    "excluded": (["--exclude", "tied.*"], False),
}


@pytest.mark.parametrize(("options", "found"), SELECTIONS.values(), ids=SELECTIONS)
def test_selection(options: list[str], found: bool, here: Path, anydevice: Anydevice) -> None:
    (here / "tied.py").write_text(TIED)
    run = anydevice("scan", *options)
    assert ("ADA01" in run.out) == found
    assert run.status == int(found)


@pytest.mark.parametrize(
    ("format_", "begin"), [("text", "tied.py\n"), ("json", "{"), ("sarif", "{"), ("github", "::warning file=tied.py")]
)
def test_report_goes_to_stdout_or_to_a_file(format_: str, begin: str, here: Path, anydevice: Anydevice) -> None:
    (here / "tied.py").write_text(TIED)
    shown = anydevice("scan", "--format", format_, "tied.py")
    written = anydevice("scan", "--format", format_, "-o", here.parent / "report", "tied.py")
    assert shown.out.startswith(begin)
    assert (shown.status, written.status, written.out) == (1, 1, "")
    assert (here.parent / "report").read_text(encoding="utf-8") == shown.out


def test_torch_decides_what_is_written(here: Path, anydevice: Anydevice) -> None:
    (here / "tied.py").write_text(TIED)
    assert "torch.accelerator" in anydevice("fix", "--diff", "--torch", "2.6").out
    assert "torch.accelerator" not in anydevice("fix", "--diff", "--torch", "1.9").out
    (here / "requirements.txt").write_text("torch>=1.9\n")
    assert "torch.accelerator" not in anydevice("fix", "--diff", "tied.py").out


def test_settings_of_the_project_are_in_force(here: Path, anydevice: Anydevice) -> None:
    (here / "tied.py").write_text(TIED)
    (here / "pyproject.toml").write_text('[tool.anydevice]\nignore = ["ADA01"]\n')
    assert anydevice("scan").status == 0
    assert anydevice("scan", "--ignore", "ADN01").status == 1
    (here / "pyproject.toml").write_text("[tool.anydevice]\nfrob = 1\n")
    run = anydevice("scan")
    assert (run.status, len(_lines(run.err))) == (2, 1)
    assert "unknown key 'frob'" in run.err


def test_standard_output_that_cannot_say_it_still_gets_it(here: Path) -> None:
    (here / "ü.py").write_text(TIED.replace("y =", "漢 ="), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "anydevice", "scan"],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path), "PYTHONIOENCODING": "ascii:strict"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "\\u6f22 = x.cuda()" in done.stdout


def test_what_is_found_is_underlined_where_it_is(here: Path, anydevice: Anydevice) -> None:
    (here / "deep.py").write_text("import torch\n\ndef f(x):\n    if x:\n        return x.cuda()\n")
    (here / "run.sh").write_text("if true; then\n    python train.py --device cuda\nfi\n")
    lines = _lines(anydevice("scan").out)
    code = lines.index("      |         return x.cuda()")
    assert lines[code + 1] == "      |                ^^^^^^^^"
    shell = next(n for n, line in enumerate(lines) if line.endswith("|     python train.py --device cuda"))
    start = lines[shell + 1].index("^")
    assert lines[shell][start:].startswith(("cuda", "--device"))


@pytest.mark.skipif(os.name != "posix", reason="closes a stream as a shell does")
@pytest.mark.parametrize("verb", ["scan", "fix --diff", "rules"])
def test_a_closed_standard_output_is_no_error(verb: str, here: Path) -> None:
    (here / "tied.py").write_text(TIED)
    done = subprocess.run(
        ["/bin/sh", "-c", f'"$0" -m anydevice {verb} >&-', sys.executable],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == (0 if verb == "rules" else 1)


def test_one_file_is_judged_as_in_its_project(here: Path, anydevice: Anydevice) -> None:
    (here / "models").mkdir()
    (here / "models" / "net.py").write_text("import torch\n\n\ndef f(x):\n    return x.cuda()\n")
    (here / "train.py").write_text(
        'import os\nimport torch\nimport models.net\nos.environ["CUDA_VISIBLE_DEVICES"] = input()\n'
    )
    part, whole = anydevice("fix", "--diff", "models/net.py").out, anydevice("fix", "--diff", ".").out
    assert "def get_device():" in part
    assert part in whole
    (here / "setup.cfg").unlink()  # then it stands alone
    assert "def get_device():" not in anydevice("fix", "--diff", "models/net.py").out


# -- fix -------------------------------------------------------------------------------------------------------


def test_fix_writes_and_a_second_fix_has_nothing_to_do(here: Path, anydevice: Anydevice) -> None:
    (here / "tied.py").write_text(TIED)
    first = anydevice("fix")
    fixed = (here / "tied.py").read_text()
    assert "y = x.to(device)" in fixed
    assert first.out.startswith("Fixed 1 finding in 1 file.\n")
    second = anydevice("fix")
    assert (second.status, (here / "tied.py").read_text()) == (0, fixed)


def test_fix_reports_what_it_leaves(here: Path, anydevice: Anydevice) -> None:
    (here / "tied.py").write_text(TIED)
    (here / "kernel.py").write_text("import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef k(x): pass\n")
    run = anydevice("fix")
    assert "Fixed 1 finding in 1 file." in run.out
    assert ("Left: " in run.out) == (run.status == 1)


DIFFED = {
    "train.py": TIED,
    "with blank.py": TIED,
    "ü/ä.py": TIED,
    "crlf.py": TIED.replace("\n", "\r\n"),
    "no_end.py": TIED.rstrip("\n"),
    "bom.py": "\ufeff" + TIED,
    "nb.ipynb": json.dumps(
        {
            "cells": [
                {
                    "cell_type": "code",
                    "metadata": {},
                    "execution_count": None,
                    "outputs": [],
                    "source": TIED.splitlines(True),
                }
            ],
            "metadata": {},
            "nbformat": 4,
            "nbformat_minor": 4,
        },
        indent=1,
    ),
}


@pytest.mark.parametrize("tool", [["patch", "-p1", "--binary"], ["git", "apply", "-"]], ids=["patch", "git"])
def test_diff_writes_nothing_and_applies(tool: list[str], here: Path, anydevice: Anydevice) -> None:
    if shutil.which(tool[0]) is None:
        pytest.skip(f"{tool[0]} is not installed")
    for name, source in DIFFED.items():
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_bytes(source.encode())
    (here / "latin.py").write_bytes(("# coding: latin-1\n" + TIED + "# \xe9 = x.cuda()\n").encode("latin-1"))
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    done = subprocess.run(
        [sys.executable, "-m", "anydevice", "fix", "--diff", "--no-cache"],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert before == {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    copy = here.parent / "copy"
    shutil.copytree(here, copy)
    subprocess.run(tool, cwd=copy, input=done.stdout, check=True, capture_output=True)
    anydevice("fix")
    for path in before:
        assert (copy / path.relative_to(here)).read_bytes() == path.read_bytes()
        assert path.read_bytes() != before[path] or path.name == "setup.cfg"


def test_unsafe_fixes_are_made_only_when_asked_for(here: Path, anydevice: Anydevice) -> None:
    from anydevice.finding import Safety
    from anydevice.project.settings import Settings
    from anydevice.project.tree import Tree
    from anydevice.rules.registry import all_rules

    path = here / "unsafe.py"
    for example in (e for r in all_rules() for e in r.examples if e.path == "example.py" and e.after and not e.torch):
        path.write_text(example.before, encoding="utf-8")
        findings = Tree([path], Settings(cache=False)).scan().findings
        if findings and all(f.safety is Safety.UNSAFE for f in findings):
            break
    run = anydevice("fix", "unsafe.py")
    assert path.read_text(encoding="utf-8") == example.before
    assert run.status == 1
    assert "anydevice fix --unsafe" in run.out
    anydevice("fix", "--unsafe", "unsafe.py")
    assert path.read_text(encoding="utf-8") != example.before
