"""Text that is safe to show: one line, and nothing in it that a terminal would obey."""

from __future__ import annotations

import unicodedata


def printable(text: str) -> str:
    """`text` with everything that is no visible character (but for tabs) spelled out: `\\x1b`, `\\n`, `\\udcff`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\t\u3000\xa0" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", errors="surrogatepass").decode()


def width(text: str) -> int:
    """The columns that `text` takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
