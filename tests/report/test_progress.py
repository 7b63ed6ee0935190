"""The bar shows only to people who wait."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from anydevice.report import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _shown(monkeypatch: pytest.MonkeyPatch, *, patience: float, terminal: bool) -> str:
    stderr = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(progress, "_PATIENCE", patience)
    monkeypatch.setenv("TERM", "xterm")
    with progress.progress_bar("scanning") as update:
        for done in range(4):
            update(done, 4)
    return stderr.getvalue()


def test_long_work_on_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "scanning" in _shown(monkeypatch, patience=0, terminal=True)


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _shown(monkeypatch, patience=60, terminal=True) == ""


def test_pipe_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _shown(monkeypatch, patience=0, terminal=False) == ""


def test_rich_is_not_imported_without_a_terminal() -> None:
    script = (
        "import sys\nfrom anydevice.report.progress import progress_bar\n"
        "with progress_bar('scanning') as update: update(1, 2)\nprint('rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
