"""A project of the test's own, which is the working directory."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ANYDEVICE_CACHE_DIR", str(tmp_path / "cache"))
    (folder / "setup.cfg").touch()
    return folder
