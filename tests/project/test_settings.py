"""What a user decides, where it is read from, and every way of getting it wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anydevice.project.settings import Settings, SettingsError, load, project_root

GOOD: dict[str, tuple[str, Settings]] = {
    "nothing": ("", Settings()),
    "another tool": ("[tool.other]\nselect = 1", Settings()),
    "all of it": (
        '[tool.anydevice]\nselect = ["ADA", "ADB01"]\nignore = ["ADO01"]\nexclude = ["third_party/"]\n'
        'torch = "2.6"\nunsafe-fixes = true\nrespect-gitignore = false\njobs = 3\ncache = false',
        Settings(("ADA", "ADB01"), ("ADO01",), ("third_party/",), "2.6", True, False, 3, False),
    ),
    "a byte order mark": ('\ufeff[tool.anydevice]\ntorch = "1.9"', Settings(torch="1.9")),
    "a tool that is no table": ("tool = 3", Settings()),
}


@pytest.mark.parametrize(("text", "expected"), GOOD.values(), ids=GOOD)
def test_settings_are_read(text: str, expected: Settings, here: Path) -> None:
    (here / "pyproject.toml").write_text(text, encoding="utf-8")
    assert load(here, {}) == expected


BAD = {
    "an unknown key": ("[tool.anydevice]\nfrob = 1", "unknown key 'frob'"),
    "a string for a list": ('[tool.anydevice]\nselect = "ADA"', "'select' .* must be a list of strings"),
    "a list of numbers": ("[tool.anydevice]\nignore = [1]", "'ignore' .* must be a list of strings"),
    "a number for a version": ("[tool.anydevice]\ntorch = 2.6", "'torch' .* must be a string"),
    "a version that is none": ('[tool.anydevice]\ntorch = "new"', "'torch' .* is no version: 'new'"),
    "a string for a truth": ('[tool.anydevice]\nunsafe-fixes = "yes"', "'unsafe-fixes' .* must be true or false"),
    "a truth for a number": ("[tool.anydevice]\njobs = true", "'jobs' .* must be a number from 1 on"),
    "no workers": ("[tool.anydevice]\njobs = 0", "'jobs' .* must be a number from 1 on"),
    "no table": ("[tool]\nanydevice = 1", "must be a table"),
    "no TOML": ("[tool.anydevice\n", "cannot read"),
    "no UTF-8": (b"# caf\xe9", "cannot read"),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_a_wrong_setting_is_named_with_its_file(text: str | bytes, message: str, here: Path) -> None:
    (here / "pyproject.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingsError, match=message) as error:
        load(here, {})
    assert "pyproject.toml" in str(error.value)
    assert "\n" not in str(error.value)


OVERRIDES: list[tuple[dict[str, Any], Settings]] = [
    ({"torch": None}, Settings(torch="2.6")),
    ({"torch": "1.9"}, Settings(torch="1.9")),
    ({"torch": "1.9", "jobs": 2}, Settings(torch="1.9", jobs=2)),
]


@pytest.mark.parametrize(("overrides", "expected"), OVERRIDES)
def test_the_command_line_comes_first(overrides: dict[str, Any], expected: Settings, here: Path) -> None:
    (here / "pyproject.toml").write_text('[tool.anydevice]\ntorch = "2.6"')
    assert load(here, overrides) == expected


def test_a_wrong_torch_of_the_command_line_is_refused(here: Path) -> None:
    with pytest.raises(SettingsError, match="'x' is no version"):
        load(here, {"torch": "x"})


@pytest.mark.parametrize("marker", ["pyproject.toml", "setup.py", "setup.cfg", ".git"])
@pytest.mark.parametrize("asked", ["project", "project/a/b", "project/a/b/x.py", "project/a/missing.py", "other/.."])
def test_the_project_begins_where_its_marker_is(asked: str, marker: str, tmp_path: Path) -> None:
    (tmp_path / "project/a/b").mkdir(parents=True)
    (tmp_path / "project/a/b/x.py").touch()
    (tmp_path / "other").symlink_to("project/a")  # whose `..` is the project, not the folder of the link
    (tmp_path / "project" / marker).touch()
    assert project_root([tmp_path / asked]) == (tmp_path / "project").resolve()


def test_the_project_of_a_relative_path_is_found(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "a/b").mkdir(parents=True)
    monkeypatch.chdir(here / "a/b")
    assert project_root([]) == project_root([Path("..")]) == project_root([Path()]) == here.resolve()


def test_a_loop_of_links_has_a_project(here: Path) -> None:
    (here / "loop").symlink_to("loop")
    assert project_root([Path("loop")]) == here.resolve()
