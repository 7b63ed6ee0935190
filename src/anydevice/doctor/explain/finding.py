"""Finds known messages: literals over a whole block first, and regexes only where all literals of a pattern are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache

from anydevice.doctor.explain.lines import Joined, join
from anydevice.doctor.explain.reading import Block
from anydevice.doctor.facts.signatures import Pattern, Signature

_REACH = 1200  # characters around a pattern's rarest literal in which its regex is tried
_KEPT = 8  # occurrences of one error that are kept; all are counted

_RAISED = re.compile(
    r"(?:^|[\s|:(])(?:[\w.]+\.)?\w*(?:Error|Exception|Missing|Failure|Abort)\b(?:\[\w+\])?:?"
    r"|^(?:ERROR|FATAL|error|×)\b|terminate called"
)
_WARNED = re.compile(r"\b\w*Warning:|^(?:WARN|WARNING)\b|warnings\.warn|\[W\d{3,4} |\bWARNING[:\[ ]")
_QUOTED = re.compile(
    r"^(?:raise |File \"|\+ ?raise |assert |logger\.|print\(|#)|pytest\.raises|assertRaises|in str\(|except \w+"
)


class Weight(IntEnum):
    """How a message stands in a log."""

    RAISED = 0
    PRINTED = 1
    WARNED = 2


@dataclass(frozen=True)
class Occurrence:
    """One place where a message stands."""

    line: int
    offset: int  # in the block: orders what is on one line
    shown: str
    weight: Weight
    groups: dict[str, str]


@dataclass
class Found:
    """A known error and the places where it stands."""

    signature: Signature
    count: int = 0
    occurrences: list[Occurrence] = field(default_factory=list)
    last_line: int = 0

    def add(self, occurrence: Occurrence) -> None:
        """Count one more; the first few are kept, and any that says more than they do."""
        self.count += 1
        self.last_line = occurrence.line
        if len(self.occurrences) < _KEPT:
            self.occurrences.append(occurrence)
        elif occurrence.weight < self.weight:
            self.occurrences[-1] = occurrence

    @property
    def weight(self) -> Weight:
        """That of the place where it weighs most."""
        return min(one.weight for one in self.occurrences)

    @property
    def first(self) -> Occurrence:
        """The first of the places where it weighs most."""
        return next(one for one in self.occurrences if one.weight == self.weight)

    @property
    def groups(self) -> dict[str, str]:
        """What all occurrences say, the first to say something first."""
        said: dict[str, str] = {}
        for one in (self.first, *self.occurrences):
            for name, value in one.groups.items():
                said.setdefault(name, value)
        return said


def find(blocks: Iterable[Block], known: Iterable[Signature]) -> list[Found]:
    """The known errors in the blocks, in the order of the data."""
    all_known = list(known)
    found: dict[str, Found] = {}
    for block in blocks:
        present = cache(block.text.__contains__)  # patterns share words
        candidates = [
            (signature, pattern)
            for signature in all_known
            for pattern in signature.patterns
            if all(present(word) for word in pattern.words)
        ]
        if not candidates:
            continue
        joined = join(block.text)
        owned = _owned(joined, block)
        taken: set[tuple[str, int]] = set()  # an error is counted once a line, in however many words it is said there
        for signature, pattern in candidates:
            for match in matches(pattern, joined.text):
                place = (signature.id, joined.index(match.start()))
                if match.start() >= owned or place in taken:
                    continue
                occurrence = _occurrence(match, joined, block)
                if occurrence is not None:
                    taken.add(place)
                    found.setdefault(signature.id, Found(signature)).add(occurrence)
    return [found[signature.id] for signature in all_known if signature.id in found]


def _owned(joined: Joined, block: Block) -> int:
    """Where in the joined text the next block begins."""
    if block.owned >= len(block.text):
        return len(joined.text) + 1
    line = block.text.count("\n", 0, block.owned)
    if block.text[block.owned - 1] == "\n":
        return joined.starts[line]
    return max(joined.starts[line], len(joined.text) - (len(block.text) - block.owned))  # within one long line


def matches(pattern: Pattern, text: str) -> Iterator[re.Match[str]]:
    """Matches in the surroundings of the pattern's rarest literal; each stretch of text is looked at once."""
    word, done = pattern.words[0], 0
    at = text.find(word)
    while at >= 0:
        begin, end = max(at - _REACH, done), min(at + len(word) + _REACH, len(text))
        following = text.find(word, at + len(word))
        while 0 <= following < end:
            end, following = min(following + len(word) + _REACH, len(text)), text.find(word, following + len(word))
        yield from pattern.regex.finditer(text, begin, end)
        done, at = end, following


def _occurrence(match: re.Match[str], joined: Joined, block: Block) -> Occurrence | None:
    index = joined.index(match.start())
    line = joined.lines[index]
    if _QUOTED.search(line[:200]):
        return None  # source code that a traceback or a listing shows
    above = next((joined.lines[i] for i in range(index - 1, max(index - 4, -1), -1) if joined.lines[i]), "")
    if _WARNED.search(line):
        weight = Weight.WARNED
    elif _RAISED.search(line) or above.endswith("Error:"):
        weight = Weight.RAISED
    else:
        weight = Weight.WARNED if _WARNED.search(above) else Weight.PRINTED
    groups = {name: value.strip() for name, value in match.groupdict().items() if value}
    return Occurrence(block.line + index, match.start(), _shown(line, match), weight, groups)


def _shown(line: str, match: re.Match[str]) -> str:
    """The line as far as it can be shown; of a very long one, what was recognised."""
    return line if len(line) <= 300 else match[0][:300]
