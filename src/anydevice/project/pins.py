"""The oldest torch that a project says it supports, read from its requirements as text; nothing is installed or run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

_FILES = (
    "requirements.txt",
    "requirements/*.txt",
    "requirements*.txt",
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "environment.y*ml",
    "Pipfile",
)
_PIN = re.compile(
    r"""(?:^|["'\s:;-])(?:py)?torch(?:\[[\w,]*\])?["']?\s*(?:=\s*["']\s*(?=[=<>~!]))?(?P<pin>(?:[=<>~!]=?=?\s*v?\d[\w.*+]*\s*,?\s*)+)""",
    re.M,
)
_LIMIT = 1 << 20  # no list of requirements is larger than a megabyte


def oldest_torch(root: Path) -> Version | None:
    """The lowest torch version that the project's pins admit; None where nothing is pinned from below."""
    floors = [floor for pin in _pins(root) if (floor := _floor(pin)) is not None]
    return min(floors, default=None)


def _pins(root: Path) -> Iterator[str]:
    seen = set()
    for pattern in _FILES:
        for file in sorted(root.glob(pattern)):
            if file in seen or not file.is_file() or file.stat().st_size > _LIMIT:
                continue
            seen.add(file)
            try:
                source = file.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            for match in _PIN.finditer(source):
                line = source[source.rfind("\n", 0, match.start("pin")) + 1 : match.start("pin")]
                if "#" not in line:
                    yield match.group("pin")


def _floor(pin: str) -> Version | None:
    """The lower bound of `>=1.7,<2` or `==1.13.1+cu117`."""
    text = re.sub(r"\+[\w.]+", "", pin).replace(" ", "").rstrip(",")
    if re.match(r"=\d", text):  # conda writes torch=1.7
        text = "=" + text
    try:
        clauses = SpecifierSet(text)
    except InvalidSpecifier:
        return None
    floors = []
    for clause in clauses:
        if clause.operator in ("==", ">=", ">", "~=", "==="):
            try:
                floors.append(Version(clause.version.removesuffix(".*")))
            except InvalidVersion:
                continue
    return max(floors, default=None)
