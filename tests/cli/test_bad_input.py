"""Whatever is in the folder: one clear line each, the other files still done, and nothing half-written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Anydevice = Callable[..., Any]

TIED = "import torch\n\nx = torch.ones(2)\ny = x.cuda()\n"
BAD_CODE = {
    "binary.py": b"\x00\x01import torch",
    "latin.py": TIED.encode() + b"# \xe9\n",
    "utf16.py": TIED.encode("utf-16"),
    "coding.py": b"# coding: klingon\n" + TIED.encode(),
    "half.ipynb": b'{"cells": [{"cell_type": "code", "so',
    "list.ipynb": b"[1, 2]",
    "deep.ipynb": b"[" * 100_000,
}
ODD_CODE = {
    "empty.py": b"",
    "empty.ipynb": b'{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}',
    "blank.py": b"\n\n",
    "deep.py": b"import torch\nx = " + b"(" * 50_000 + b"1" + b")" * 50_000 + b"\n",
    "chain.py": b"import torch\nx" + b".f()" * 20_000 + b"\n",
    "wrong.py": b"import torch\ndef f(:\n  )))\n\x0c",
    "two.py": b"import torch\nprint 'old'\n",
}
DATA = {"settings.cfg": b"\x00\x01", "a.yaml": b"\xff\xfe\xfa", "b.conf": b"caf\xe9"}


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


@pytest.mark.parametrize("name", BAD_CODE)
@pytest.mark.parametrize("verb", ["scan", "fix"])
def test_code_that_cannot_be_read_is_one_line_and_the_rest_is_done(
    verb: str, name: str, here: Path, anydevice: Anydevice
) -> None:
    (here / name).write_bytes(BAD_CODE[name])
    (here / "tied.py").write_text(TIED)
    run = anydevice(verb)
    assert run.status == 2
    assert len(_lines(run.err)) == 1
    assert run.err.startswith(f"anydevice: cannot read '{name}': ")
    assert (here / name).read_bytes() == BAD_CODE[name]
    assert ("Fixed 1 finding" if verb == "fix" else "tied.py\n  4:5 ADA01") in run.out


@pytest.mark.parametrize("name", ODD_CODE)
def test_code_that_is_only_odd_is_no_error(name: str, here: Path, anydevice: Anydevice) -> None:
    (here / name).write_bytes(ODD_CODE[name])
    run = anydevice("scan")
    assert (run.status, run.err) == (0, "")


@pytest.mark.parametrize("name", ["deep.py", "wrong.py", "two.py"])
def test_what_is_found_beside_odd_code_is_fixed_or_told(name: str, here: Path, anydevice: Anydevice) -> None:
    (here / name).write_bytes(ODD_CODE[name] + b"y = torch.ones(1).cuda()\n")
    (here / "tied.py").write_text(TIED)
    run = anydevice("fix")
    assert "x.to(device)" in (here / "tied.py").read_text()
    assert "Traceback" not in run.err
    assert len(_lines(run.err)) <= 1


@pytest.mark.parametrize("name", DATA)
def test_a_walk_tells_of_data_without_calling_it_an_error(name: str, here: Path, anydevice: Anydevice) -> None:
    (here / name).write_bytes(DATA[name])
    run = anydevice("scan")
    assert run.status == 0
    assert _lines(run.err) == [line for line in _lines(run.err) if line.startswith(f"anydevice: cannot read '{name}'")]


@pytest.mark.parametrize("name", DATA)
def test_data_that_is_asked_for_by_name_is_an_error(name: str, here: Path, anydevice: Anydevice) -> None:
    (here / name).write_bytes(DATA[name])
    run = anydevice("scan", name)
    assert (run.status, len(_lines(run.err))) == (2, 1)


def test_a_folder_full_of_data_is_a_few_lines(here: Path, anydevice: Anydevice) -> None:
    for number in range(50):
        (here / f"{number}.cfg").write_bytes(b"\x00")
    run = anydevice("scan")
    assert run.status == 0
    assert len(_lines(run.err)) == 4
    assert "47 more files are too large or no text" in run.err


def test_an_enormous_file_is_left_out_with_a_notice_or_refused_by_name(here: Path, anydevice: Anydevice) -> None:
    with (here / "huge.py").open("wb") as file:
        file.truncate(6 << 20)
    walked, named = anydevice("scan"), anydevice("scan", "huge.py")
    assert (walked.status, named.status) == (0, 2)
    assert walked.err == named.err
    assert "more than the limit" in walked.err


def test_a_loop_of_links_is_one_line(here: Path, anydevice: Anydevice) -> None:
    (here / "loop.py").symlink_to("loop.py")
    (here / "up").symlink_to("..")
    (here / "tied.py").write_text(TIED)
    run = anydevice("scan", "loop.py", "tied.py")
    assert (run.status, len(_lines(run.err))) == (2, 1)
    assert "loop.py" in run.err
    assert "ADA01" in run.out
    assert anydevice("scan").status == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_waited_for(here: Path, anydevice: Anydevice) -> None:
    os.mkfifo(here / "pipe.py")
    run = anydevice("scan", "pipe.py")
    assert (run.status, run.err) == (2, "anydevice: cannot read 'pipe.py': not a regular file\n")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_one_line(here: Path, anydevice: Anydevice) -> None:
    (here / "secret.py").write_text(TIED)
    (here / "secret.py").chmod(0)
    run = anydevice("scan")
    assert (run.status, run.err) == (2, "anydevice: cannot read 'secret.py': permission denied\n")


def test_a_file_that_cannot_be_written_is_one_line_and_as_it_was(here: Path, anydevice: Anydevice) -> None:
    for name in ("a.py", "fixed.py", "z.py"):
        (here / name).write_text(TIED)
    (here / "fixed.py").chmod(0o444)
    run = anydevice("fix")
    assert (run.status, run.err) == (2, "anydevice: cannot write 'fixed.py': the file is read-only\n")
    assert (here / "fixed.py").read_text() == TIED
    assert all("x.to(device)" in (here / name).read_text() for name in ("a.py", "z.py"))
    assert sorted(os.listdir(here)) == ["a.py", "fixed.py", "setup.cfg", "z.py"]  # noqa: PTH208


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text here")
@pytest.mark.parametrize("name", [b"bad\xff.py", b"line\nbreak.py", b"\x1b[31m.py", b"-rf.py", b"a b'\".py"])
@pytest.mark.parametrize("format_", ["text", "json", "sarif", "github"])
def test_any_file_name_is_shown_on_one_line(name: bytes, format_: str, here: Path, anydevice: Anydevice) -> None:
    Path(os.fsdecode(name)).write_text(TIED)
    run = anydevice("scan", "--format", format_)
    assert (run.status, run.err) == (1, "")
    assert "\x1b" not in run.out or format_ == "github"
    if format_ in ("json", "sarif"):
        json.loads(run.out)


def test_a_broken_rule_is_one_line_and_the_rest_is_done(
    here: Path, anydevice: Anydevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anydevice.project import examine

    def fail(document: Any, *_: Any) -> Any:
        if document.name == "a.py":
            raise KeyError("oops")
        return real(document, *_)

    real = examine.analyse
    monkeypatch.setattr(examine, "analyse", fail)
    for name in ("a.py", "b.py"):
        (here / name).write_text(TIED)
    run = anydevice("scan")
    assert (run.status, run.err) == (2, "anydevice: cannot examine 'a.py' (KeyError: 'oops'); please report this\n")
    assert "b.py\n  4:5 ADA01" in run.out


def test_an_interrupt_is_one_line_and_neither_0_nor_1(
    here: Path, anydevice: Anydevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anydevice.project.tree import Tree

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Tree, "scan", interrupt)
    run = anydevice("scan")
    assert (run.status, len(_lines(run.err))) == (130, 1)
    assert "interrupted" in run.err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_control_c_ends_the_workers_too(here: Path) -> None:
    for number in range(400):
        (here / f"{number}.py").write_text(TIED * 200)
    process = subprocess.Popen(
        [sys.executable, "-m", "anydevice", "scan", "-j", "2", "--no-cache"],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    time.sleep(2)  # the work takes far longer, and may be interrupted at any point of it
    os.killpg(process.pid, signal.SIGINT)
    try:
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()
    if process.returncode != 1:  # a machine that was faster
        assert process.returncode in (130, -signal.SIGINT)
        assert "Traceback" not in err
