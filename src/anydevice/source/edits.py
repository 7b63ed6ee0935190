"""Edits as pure functions: apply them to bytes, choose those that go together, and show the outcome as a diff."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

from anydevice.finding import Edit

_Key = tuple[int, int, str]
_CONTEXT = 3  # lines around a change, as git shows


def apply(data: bytes, edits: Iterable[Edit]) -> bytes:
    """`data` with the edits made. Equal edits are made once; raises ValueError where two overlap."""
    pieces: list[bytes] = []
    position = 0
    previous: _Key | None = None
    for key in sorted({_key(edit) for edit in edits}):
        start, end, text = key
        if not 0 <= start <= end <= len(data):
            raise ValueError(f"edit of bytes {start} to {end} is outside of the text of {len(data)} bytes")
        if previous is not None and _conflict(previous, key):
            raise ValueError(f"edits of bytes {previous[0]} to {previous[1]} and {start} to {end} overlap")
        pieces += (data[position:start], text.encode())
        position = end
        previous = key
    pieces.append(data[position:])
    return b"".join(pieces)


def compatible(groups: Iterable[Sequence[Edit]]) -> tuple[list[int], list[int]]:
    """The indexes of the groups that can be applied together, and of those that are put off.

    Groups come in order of priority and go in whole or not at all. A group is put off when one of its edits overlaps
    an edit of an accepted group without being equal to it, or when its own edits overlap.
    """
    accepted: list[int] = []
    put_off: list[int] = []
    taken = _Taken()
    for index, group in enumerate(groups):
        keys = sorted({_key(edit) for edit in group})
        if any(_conflict(a, b) for a, b in pairwise(keys)) or any(taken.conflicts(key) for key in keys):
            put_off.append(index)
            continue
        for key in keys:
            taken.add(key)
        accepted.append(index)
    return accepted, put_off


def unified_diff(path: str, before: str, after: str) -> str:
    """What changed, in the form of git: `patch -p1` and `git apply` take it. Empty where nothing changed."""
    if before == after:
        return ""
    old, new = _lines(before), _lines(after)
    # The equal lines at both ends are most of a file; comparing them is most of the time.
    limit = min(len(old), len(new))
    head = next((i for i in range(limit) if old[i] != new[i]), limit)
    tail = next((i for i in range(limit - head) if old[-1 - i] != new[-1 - i]), limit - head)
    skip = max(0, head - _CONTEXT)
    keep = max(0, tail - _CONTEXT)
    old, new = old[skip : len(old) - keep], new[skip : len(new) - keep]
    shown = path.replace("\\", "/").lstrip("/")
    end = "\t\n" if " " in shown else "\n"  # the tab ends the name for patch when there are blanks in it
    parts = [f"--- a/{shown}{end}+++ b/{shown}{end}"]
    for opcodes in SequenceMatcher(None, old, new).get_grouped_opcodes(_CONTEXT):
        first, last = opcodes[0], opcodes[-1]
        removed, added = _range(first[1] + skip, last[2] + skip), _range(first[3] + skip, last[4] + skip)
        parts.append(f"@@ -{removed} +{added} @@\n")
        for tag, i1, i2, j1, j2 in opcodes:
            if tag == "equal":
                parts += _marked(" ", old[i1:i2])
            else:
                parts += _marked("-", old[i1:i2])
                parts += _marked("+", new[j1:j2])
    return "".join(parts)


class _Taken:
    """The accepted edits, kept sorted so that a new one need only be compared with its neighbours."""

    def __init__(self) -> None:
        self._all: set[_Key] = set()
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._insertions: list[int] = []

    def conflicts(self, key: _Key) -> bool:
        """Whether `key` overlaps something taken that is not equal to it."""
        if key in self._all:
            return False
        start, end, _ = key
        if start == end:
            before = bisect_left(self._starts, start) - 1
            if before >= 0 and self._ends[before] > start:
                return True
            at = bisect_left(self._insertions, start)
            return at < len(self._insertions) and self._insertions[at] == start
        after = bisect_left(self._starts, end)
        if after > 0 and self._ends[after - 1] > start:
            return True
        inside = bisect_right(self._insertions, start)
        return inside < len(self._insertions) and self._insertions[inside] < end

    def add(self, key: _Key) -> None:
        """Take `key`, which conflicts with nothing."""
        if key in self._all:
            return
        self._all.add(key)
        start, end, _ = key
        if start == end:
            insort(self._insertions, start)
        else:
            at = bisect_left(self._starts, start)
            self._starts.insert(at, start)
            self._ends.insert(at, end)


def _key(edit: Edit) -> _Key:
    return edit.span.start, edit.span.end, edit.text


def _conflict(first: _Key, second: _Key) -> bool:
    """Whether two different edits, the first not after the second in sorted order, exclude each other."""
    return second[0] < first[1] or (first[0] == first[1] == second[0] == second[1])


def _lines(text: str) -> list[str]:
    """Lines as patch knows them: only "\\n" ends one, so that "\\r" stays part of its line."""
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _range(start: int, stop: int) -> str:
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _marked(mark: str, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"
