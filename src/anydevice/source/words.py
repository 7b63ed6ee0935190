"""Whole words in source text, found without a regular expression: several times faster, and there are many to find."""

from __future__ import annotations

from collections.abc import Iterator

_BYTES = b"_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
# The empty slice before the first and after the last byte of a text is no part of a word.
_WORD = frozenset(bytes([byte]) for byte in _BYTES)
# Every byte that is no part of a word becomes a blank: splitting is then the fastest way to all words of a text.
_SEPARATED = bytes(byte if byte in _BYTES else 0x20 for byte in range(256))


def words(data: bytes, word: bytes) -> Iterator[tuple[int, int]]:
    """The byte ranges at which `word` stands as a whole word."""
    start, length = data.find(word), len(word)
    while start >= 0:
        end = start + length
        if data[start - 1 : start] not in _WORD and data[end : end + 1] not in _WORD:
            yield start, end
        start = data.find(word, end)


def all_words(data: bytes) -> set[bytes]:
    """All words of a text."""
    return set(data.translate(_SEPARATED).split())


def is_word(text: bytes) -> bool:
    """Whether `text` is one word: letters, digits and underscores only."""
    return not text.translate(None, _BYTES)
