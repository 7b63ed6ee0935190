"""What a user decides: command line over `[tool.anydevice]` in pyproject.toml over defaults."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
_TYPES: dict[str, type] = {"torch": str, "unsafe": bool, "respect_gitignore": bool, "jobs": int, "cache": bool}


def project_root(paths: Sequence[Path]) -> Path:
    """The nearest folder at or above the first path with a pyproject.toml, a setup.py or a .git; else that folder."""
    start = (paths[0] if paths else Path()).absolute()
    folder = start if start.is_dir() else start.parent
    for candidate in (folder, *folder.parents):
        if any((candidate / marker).exists() for marker in ("pyproject.toml", "setup.py", "setup.cfg", ".git")):
            return candidate
    return folder


def load(root: Path, overrides: Mapping[str, Any]) -> Settings:
    """The settings of the project at `root`, with the command line's `overrides` (None: not given).

    Raises SettingsError.
    """
    settings = Settings()
    file = root / "pyproject.toml"
    if file.is_file():
        try:
            table = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("anydevice", {})
        except (OSError, ValueError) as error:
            raise SettingsError(f"cannot read '{file}': {error}") from None
        settings = replace(settings, **_checked(table, file))
    return replace(settings, **{name: value for name, value in overrides.items() if value is not None})


def _checked(table: Mapping[str, Any], file: Path) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = _KEYS.get(key)
        if name is None:
            raise SettingsError(f"unknown key '{key}' in [tool.anydevice] of '{file}'; known are {', '.join(_KEYS)}")
        if name in _LISTS:
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise SettingsError(f"'{key}' in [tool.anydevice] of '{file}' must be a list of strings")
            values[name] = tuple(value)
        elif not isinstance(value, _TYPES[name]) or (name == "jobs" and isinstance(value, bool)):
            raise SettingsError(f"'{key}' in [tool.anydevice] of '{file}' must be of type {_TYPES[name].__name__}")
        else:
            values[name] = value
    return values
