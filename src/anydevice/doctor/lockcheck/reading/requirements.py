"""requirements.txt as pip reads it: continued lines, options, hashes, and other files included with -r and -c."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from anydevice.doctor.lockcheck.listing import Entry, Index, Listing, canonical, wheel_version
from anydevice.doctor.lockcheck.reading.text import Unreadable, text_of

_FILES = 500  # included files after which a list is no list any more
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_OPTION = re.compile(r"(--?[A-Za-z][A-Za-z-]*)(?:[ =]\s*|(?<=^-[a-z]))?(.*)")
_HASHES = re.compile(r"\s--(?:hash|config-settings?|global-option|install-option)[ =].*$")
_INDEX = {
    "-i": False,
    "--index-url": False,
    "--pypi-url": False,
    "--extra-index-url": True,
    "-f": True,
    "--find-links": True,
}


@dataclass
class _Reading:
    entries: list[Entry] = field(default_factory=list)
    indexes: list[Index] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    bad_lines: list[tuple[Path, int, str]] = field(default_factory=list)
    seen: set[Path] = field(default_factory=set)


def read(path: Path) -> Listing:
    """The file with all that it includes, as one listing."""
    reading = _Reading()
    waiting = [(path, False, text_of(path))]
    while waiting:  # not by recursion, which a long chain of files would exhaust
        current, constraint, text = waiting.pop()
        key = current.resolve()
        if key in reading.seen:
            continue
        reading.seen.add(key)
        waiting += _read_one(current, constraint, text, reading)
        if len(reading.seen) > _FILES:
            reading.errors.append(f"'{path}' includes more than {_FILES} files; the rest was not read")
            break
    return Listing(
        path, "requirements", tuple(reading.entries), tuple(reading.indexes),
        errors=tuple(reading.errors), bad_lines=tuple(reading.bad_lines),
    )  # fmt: skip


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, those that end in a backslash joined; each with the number of its first line."""
    parts: list[str] = []
    first = 1
    for number, raw in enumerate([*text.splitlines(), ""], 1):
        if not parts:
            first = number
        continued = raw.endswith("\\") and not raw.lstrip().startswith("#")
        parts.append(raw[:-1] if continued else raw)
        if not continued:
            line = _COMMENT.sub("", "".join(parts)).strip()
            parts = []
            if line:
                yield first, line


def parse(text: str, path: Path, line: int, **more: object) -> Entry:
    """One requirement in pip's spelling. Raises InvalidRequirement."""
    bare = _HASHES.sub("", text).strip()
    hashed = "--hash" in text or bool(re.search(r"#(?:sha256|sha384|sha512|md5)=", bare))
    if re.match(r"(?:https?|file):", bare) or bare.endswith(".whl"):
        named = wheel_version("/" + bare if "/" not in bare else bare)
        if named is None:
            raise InvalidRequirement(f"no wheel that names its package: {bare[:80]}")
        return Entry(named[0], path, line, version=named[1], url=bare, hashed=hashed, **more)  # type: ignore[arg-type]
    requirement = Requirement(bare)
    named = wheel_version(requirement.url) if requirement.url else None
    return Entry(
        canonical(requirement.name),
        path,
        line,
        specifier=str(requirement.specifier),
        version=named[1] if named else None,
        url=requirement.url,
        marker=str(requirement.marker) if requirement.marker else None,
        hashed=hashed,
        **more,  # type: ignore[arg-type]
    )


def _read_one(path: Path, constraint: bool, text: str, reading: _Reading) -> list[tuple[Path, bool, str]]:
    included = []
    for number, line in lines_of(text):
        if line.startswith("-"):
            included += _option(line, path, number, constraint, reading)
            continue
        try:
            reading.entries.append(parse(line, path, number, constraint=constraint))
        except (InvalidRequirement, RecursionError):
            if not re.match(
                r"[\w+]+[:/]|\.{0,2}/|\.$|[\w.\-]+\[?.*@\s*(?:git|hg|svn)\+", line
            ):  # a folder or repository
                reading.bad_lines.append((path, number, line))
    return included


def _option(line: str, path: Path, number: int, constraint: bool, reading: _Reading) -> list[tuple[Path, bool, str]]:
    match = _OPTION.fullmatch(line)
    if match is None:
        return []
    option, value = match[1], match[2].strip().strip("\"'")
    if re.fullmatch(r"-[rcif].+", option):  # the short form with its value attached, as in -rbase.txt
        option, value = option[:2], option[2:] + value
    if option in _INDEX and value:
        reading.indexes.append(Index(value, _INDEX[option], path, number))
    if option in ("-r", "--requirement", "-c", "--constraint") and value:
        if re.match(r"[a-z]+://", value):
            reading.errors.append(f"{path}:{number}: '{value[:80]}' was not read; only files are")
            return []
        other = path.parent / value
        try:
            return [(other, constraint or option in ("-c", "--constraint"), text_of(other))]
        except Unreadable as error:
            reading.errors.append(f"{path}:{number}: {error}")
    return []
