"""TOML as data with line numbers of a kind: where a table or a text stands is looked up in the lines."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from anydevice.doctor.lockcheck.reading.text import Unreadable, text_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def load(path: Path) -> tuple[dict[str, Any], list[str]]:
    """The file's data and its lines."""
    text = text_of(path)
    try:
        return tomllib.loads(text), text.splitlines()
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        what = str(error).partition("\n")[0] if not isinstance(error, RecursionError) else "nested too deeply"
        raise Unreadable(f"cannot read '{path}': no valid TOML: {what}") from None


def tables(lines: list[str], name: str) -> list[int]:
    """The line numbers of `[[name]]`."""
    pattern = re.compile(rf"\[\[\s*{re.escape(name)}\s*\]\]\s*(?:#.*)?")
    return [number for number, line in enumerate(lines, 1) if pattern.fullmatch(line.strip())]


class Finder:
    """Finds texts in the lines, each next search going on behind the last hit of the same text."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._after: dict[str, int] = {}

    def line(self, *texts: str) -> int:
        """The number of the next line that holds all of the texts; 1 where none does."""
        key = "\0".join(texts)
        for number in range(self._after.get(key, 0), len(self._lines)):
            line = self._lines[number]
            if all(text in line for text in texts):
                self._after[key] = number + 1
                return number + 1
        self._after[key] = len(self._lines)  # and no search of the same text again
        return 1


def strings(value: object) -> list[str]:
    """The texts of a list, and nothing else that may be in it."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def items(value: object) -> list[dict[str, Any]]:
    """The tables of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def table(value: object, *keys: str) -> dict[str, Any]:
    """A table within tables; an empty one where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def text(value: object) -> str | None:
    """A text, and nothing else."""
    return value if isinstance(value, str) else None
