"""IPython's own syntax in the cells of a notebook: magics, shell lines and help are overwritten, byte for byte, by
Python that does nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_PYTHON_BODIED = frozenset({b"%%time", b"%%timeit", b"%%capture", b"%%prun"})
_NEWLINE = rb"(?:\r\n|\r|\n)"
_COMMAND = rb"(?:\\" + _NEWLINE + rb"|[^\r\n])*"  # goes on after a backslash
_NAME = rb"[\w\x80-\xff]"
_LINE = re.compile(rb"([^\r\n]*)(?:" + _NEWLINE + rb"|\Z)")
_MAYBE = re.compile(rb"(?m)^[ \t]*[%!?]|=[ \t]*[%!]|\?")
_CELL_MAGIC = re.compile(rb"\s*(%%\S[^\r\n]*)" + _NEWLINE + rb"?")
_STATEMENT = re.compile(rb"[ \t]*([%!?]" + _COMMAND + rb"|%{0,2}[\w\x80-\xff.*\[\]-]+\?\??;?[ \t]*(?=[\r\n]|\Z))")
_ASSIGNED = re.compile(
    rb"[ \t]*" + _NAME + rb"(?:[\w\x80-\xff.,* \t]|\[[^\[\]\r\n]*\])*=[ \t]*([%!]" + _COMMAND + rb")"
)
_LEX = re.compile(
    rb"#[^\r\n]*"
    rb"|'''(?:[^\\']|\\.|'(?!''))*(?:'''|\Z)"
    rb'|"""(?:[^\\"]|\\.|"(?!""))*(?:"""|\Z)'
    rb"|'(?:[^'\\\r\n]|\\.)*'?"
    rb'|"(?:[^"\\\r\n]|\\.)*"?'
    rb"|[(\[{}\])]|\\" + _NEWLINE + rb"|" + _NEWLINE,
    re.DOTALL,
)
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")  # half of a character, as broken JSON escapes give it
_IMPORT_LAST = re.compile(rb"(?:\A|[\r\n])(?:import|from)[ \t][^\r\n]*\s*\Z")


@dataclass(frozen=True)
class MaskedCell:
    """A cell as Python: `blocks` are masked, and before `head` there is no place for code."""

    data: bytes
    blocks: tuple[tuple[int, int], ...] = ()
    head: int = 0

    @property
    def is_python(self) -> bool:
        """Whether there is code in the cell."""
        return self.head < len(self.data) and bool(self.data.strip())

    @property
    def ends_in_import(self) -> bool:
        """Whether the last line is an import."""
        return self.is_python and _IMPORT_LAST.search(self.data) is not None


def mask(raw: bytes) -> MaskedCell:
    """`raw` with IPython's own syntax overwritten, byte for byte, by Python that does nothing."""
    raw = _SURROGATE.sub("\ufffd".encode(), raw)
    if _MAYBE.search(raw) is None:
        return MaskedCell(raw)
    blocks: list[tuple[int, int]] = []
    head = 0
    while (match := _CELL_MAGIC.match(raw, head)) is not None and not match[1].rstrip().endswith(b"?"):
        if match[1].split()[0] not in _PYTHON_BODIED:
            head = len(raw)
            blocks.append((match.start(1), head))
            break
        blocks.append(match.span(1))
        head = match.end()
    blocks += _magics(raw, head)
    data = bytearray(raw)
    for start, end in blocks:
        data[start:end] = _filler(raw[start:end], assigned=raw[:start].rstrip(b" \t").endswith(b"="))
    return MaskedCell(bytes(data), tuple(blocks), head)


def _magics(raw: bytes, position: int) -> Iterator[tuple[int, int]]:
    """Magics where a logical line begins: elsewhere a `%` is an operator, or part of a string."""
    while position < len(raw):
        match = _STATEMENT.match(raw, position) or _ASSIGNED.match(raw, position)
        if match is not None:
            yield match.span(1)
            position = match.end()
        position = _logical_end(raw, position)


def _logical_end(raw: bytes, position: int) -> int:
    depth = 0
    for match in _LEX.finditer(raw, position):
        first = match.group()[:1]
        if first in b"([{":
            depth += 1
        elif first in b")]}":
            depth = max(0, depth - 1)
        elif first in b"\r\n" and not depth:
            return match.end()
    return len(raw)


def _filler(block: bytes, *, assigned: bool) -> bytes:
    """Python of the same lines and lengths; what is assigned is the unknown `_`."""
    lead = b"_" if assigned else b"pass" if len(re.split(_NEWLINE, block)[0]) >= 4 else b"0"
    return lead + re.sub(rb"[^\r\n]", b"#", block[len(lead) :])


def masked_lines(raw: bytes, blocks: Iterable[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
    """The whole lines of the masked blocks, and where each begins."""
    for start, end in blocks:
        at = max(raw.rfind(b"\n", 0, start), raw.rfind(b"\r", 0, start)) + 1
        for match in _LINE.finditer(raw, at):
            if match.start() >= end:
                break
            if match[1].strip():
                yield match.start(), match[1]
