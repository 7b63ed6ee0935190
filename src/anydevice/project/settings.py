"""What a user decides: command line over `[tool.anydevice]` in pyproject.toml over defaults."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class SettingsError(Exception):
    """A setting that cannot be used; the message says which, where, and what to write instead."""


@dataclass(frozen=True)
class Settings:
    """`torch` is the oldest torch to support ("2.6"); None: read from the project's own pins."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    torch: str | None = None
    unsafe: bool = False
    respect_gitignore: bool = True
    jobs: int | None = None
    cache: bool = True


_LISTS = {"select", "ignore", "exclude"}
_KEYS = {
    "select": "select",
    "ignore": "ignore",
    "exclude": "exclude",
    "torch": "torch",
    "unsafe-fixes": "unsafe",
    "respect-gitignore": "respect_gitignore",
    "jobs": "jobs",
    "cache": "cache",
}
_KINDS: dict[type, str] = {str: "a string", bool: "true or false", int: "a number from 1 on"}
_TYPES: dict[str, type] = {"torch": str, "unsafe": bool, "respect_gitignore": bool, "jobs": int, "cache": bool}
_MARKERS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")  # of the folder in which a project begins


def project_root(paths: Sequence[Path]) -> Path:
    """The nearest folder at or above the first path that has one of `_MARKERS`; else the folder of the path."""
    start = Path(os.path.realpath(paths[0] if paths else "."))  # Path.resolve raises on loops of links
    folder = start if start.is_dir() else start.parent
    for candidate in (folder, *folder.parents):
        if is_project(candidate):
            return candidate
    return folder


def is_project(folder: Path) -> bool:
    """Whether a project begins in this folder."""
    return any((folder / marker).exists() for marker in _MARKERS)


def load(root: Path, overrides: Mapping[str, Any]) -> Settings:
    """The settings of the project at `root`, with the command line's `overrides` (None: not given).

    Raises SettingsError.
    """
    settings = Settings()
    file = root / "pyproject.toml"
    if file.is_file():
        settings = replace(settings, **_checked(_table(file), file))
    given = {name: value for name, value in overrides.items() if value is not None}
    if "torch" in given and not _is_version(given["torch"]):
        raise SettingsError(f"'{given['torch']}' is no version; write for example --torch 2.6")
    return replace(settings, **given)


def _table(file: Path) -> Mapping[str, Any]:
    try:
        whole = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SettingsError(f"cannot read '{file}': {(error.strerror or str(error)).lower()}") from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"cannot read '{file}': {error}") from None
    tool = whole.get("tool", {})
    table = tool.get("anydevice", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise SettingsError(f"'tool.anydevice' in '{file}' must be a table: [tool.anydevice]")
    return table


def _checked(table: Mapping[str, Any], file: Path) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = _KEYS.get(key)
        if name is None:
            raise SettingsError(f"unknown key '{key}' in [tool.anydevice] of '{file}'; known are {', '.join(_KEYS)}")
        place = f"'{key}' in [tool.anydevice] of '{file}'"
        if name in _LISTS:
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise SettingsError(f"{place} must be a list of strings")
            value = tuple(value)
        elif type(value) is not _TYPES[name] or (isinstance(value, int) and name == "jobs" and value < 1):
            raise SettingsError(f"{place} must be {_KINDS[_TYPES[name]]}")
        elif isinstance(value, str) and not _is_version(value):
            raise SettingsError(f"{place} is no version: '{value}'; write for example torch = \"2.6\"")
        values[name] = value
    return values


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True
