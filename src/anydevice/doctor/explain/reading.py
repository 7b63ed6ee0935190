"""Reads a log in blocks that overlap, so that no message is cut in two; memory does not grow with the log."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

BLOCK = 1 << 20  # characters
OVERLAP = 1 << 13  # more than the longest message with its traceback line

# colours, cursor moves, window titles: https://en.wikipedia.org/wiki/ANSI_escape_code
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,2048}(?:\x07|\x1b\\)|[@-Z\\-_])")
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_PACKED = {b"\x1f\x8b": "gzip -dc", b"BZh": "bzip2 -dc", b"\xfd7zXZ": "xz -dc", b"PK\x03\x04": "unzip -p"}


class UnreadableError(Exception):
    """What was given is no text; the message says why and what to do."""


@dataclass(frozen=True)
class Block:
    """A piece of the log without escape sequences."""

    text: str
    line: int  # the number of its first line, from 1
    owned: int  # what begins at or after this offset belongs to the next block, which repeats it


def blocks(stream: BinaryIO) -> Iterator[Block]:
    """The log piece by piece.

    UTF-8, or UTF-16 with a byte order mark as PowerShell writes it; what is neither is shown by replacement characters.

    Raises:
        UnreadableError: where it is compressed or binary.
    """
    head = stream.read(4096)
    for magic, command in _PACKED.items():
        if head.startswith(magic):
            raise UnreadableError(f"it is compressed; try: {command} FILE | anydevice explain -")
    mark, encoding = next((pair for pair in _MARKS if head.startswith(pair[0])), (b"", "utf-8"))
    if not encoding.startswith("utf-16") and b"\0" in head:
        raise UnreadableError(f"it is binary: a zero byte at {head.index(0)}; give the text that the program printed")
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    kept, line = decoder.decode(head[len(mark) :]), 1
    while True:
        data = stream.read(BLOCK)
        kept += decoder.decode(data, final=not data)
        if data and len(kept) < BLOCK:
            continue
        text = _ESCAPES.sub("", kept) if "\x1b" in kept else kept
        if not data:
            yield Block(text, line, len(text))
            return
        owned = _cut(text)
        yield Block(text, line, owned)
        line += text.count("\n", 0, owned)
        kept = text[owned:]


def _cut(text: str) -> int:
    """Where the next block begins: at a line, unless the lines are longer than the overlap."""
    latest = max(len(text) - OVERLAP, 1)
    newline = text.rfind("\n", max(latest - OVERLAP, 0), latest)
    return latest if newline < 0 else newline + 1
