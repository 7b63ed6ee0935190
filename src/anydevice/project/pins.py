"""The oldest torch that a project says it supports, read from its requirements as text; nothing is installed or run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from anydevice.rules.target import DEFAULT

# The floor of a project that only says what is too new: what is written for it runs on all that came after.
ANCIENT = Version("1.0")

_FILES = (
    "requirements*.txt",
    "requirements/*.txt",
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "*environment*.y*ml",
    "Pipfile",
)
_LIMIT = 1 << 20  # no list of requirements is larger than a megabyte
_VERSION = r"v?\d[\w.*+]*"
_CLAUSE = rf"(?:===|[=<>~!]=|[=<>^~])[ \t]*{_VERSION}"
# `torch>=1.7,<2`, `"torch[extra] >= 1.7"`, `pytorch=1.7=py3.8_cuda11`, `torch = "1.7"`, `torch = {version = "^1.7"`
_PIN = re.compile(
    rf"""(?<![\w.-])(?:py)?torch(?:\[[^\]\n]*\])?(?P<quote>["']?)[ \t]*\(?"""
    rf"""(?:=[ \t]*(?:\{{[^}}\n]*?\bversion[ \t]*=[ \t]*)?["'][ \t]*(?P<bare>{_VERSION})?)?"""
    rf"""(?P<pin>(?:[ \t]*{_CLAUSE}[ \t]*,?)*)"""
)


def oldest_torch(root: Path) -> Version | None:
    """The lowest torch version that the project's pins admit; None where nothing is pinned."""
    floors = [floor for pin in _pins(root) if (floor := _floor(pin)) is not None]
    return min(floors, default=None)


def _pins(root: Path) -> Iterator[str]:
    for source in _sources(root):
        for match in _PIN.finditer(source):
            line = source[source.rfind("\n", 0, match.start()) + 1 : match.start()]
            if "#" not in line:
                yield "==" + match["bare"] if match["bare"] else match["pin"]


def _sources(root: Path) -> Iterator[str]:
    for pattern in _FILES:
        for file in sorted(root.glob(pattern)):
            try:
                if file.is_file() and file.stat().st_size <= _LIMIT:
                    yield file.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue


def _floor(pin: str) -> Version | None:
    """The lower bound of `>=1.7,<2` or `==1.13.1+cu117`."""
    text = re.sub(r"\+[\w.]+|\s", "", pin).rstrip(",")
    text = re.sub(r"(^|,)(?:=(?=\d)|\^|~(?=\d))", r"\1~=", text)  # conda's torch=1.7, poetry's ^1.7 and ~1.7
    try:
        clauses = SpecifierSet(re.sub(r"~=(\d+)(?=,|$)", r"~=\1.0", text))
    except InvalidSpecifier:
        return None
    floors = []
    for clause in clauses:
        if clause.operator in ("==", ">=", ">", "~=", "==="):
            try:
                floors.append(Version(clause.version.removesuffix(".*")))
            except InvalidVersion:
                continue
    ceiling = any(clause.operator in ("<", "<=") for clause in clauses)
    return max(floors, default=ANCIENT if ceiling and DEFAULT not in clauses else None)
