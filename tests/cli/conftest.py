"""Runs the command line in this process, in a folder of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from anydevice.cli import command


@dataclass(frozen=True)
class Run:
    """What a command came to."""

    status: int
    out: str
    err: str


Anydevice = Callable[..., Run]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project that is the working directory; the user's own cache is out of reach."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ANYDEVICE_CACHE_DIR", str(tmp_path / "cache"))
    (folder / "setup.cfg").touch()
    return folder


@pytest.fixture
def anydevice(here: Path, capfd: pytest.CaptureFixture[str]) -> Anydevice:
    """Call as `anydevice("scan", "--torch", "2.6")`."""

    def run(*arguments: str | Path) -> Run:
        with pytest.raises(SystemExit) as ended:
            command(list(map(str, arguments)), prog_name="anydevice")
        written = capfd.readouterr()
        return Run(int(ended.value.code or 0), written.out, written.err)

    return run
