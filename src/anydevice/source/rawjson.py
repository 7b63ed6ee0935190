"""JSON with places: walks over objects and arrays in a text and says where each value stands and ends. Values that are
not walked into are left to the standard decoder; what the members mean is not known here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

_blanks = re.compile(r"[ \t\r\n]*").match
decode = json.JSONDecoder().raw_decode  # value and end, at the speed of C


def walk_object(text: str, at: int, visit: Callable[[str, int], int]) -> int:
    """Walk the object at `at`: `visit` is told key and place of each value, and says where that ends."""

    def member(at: int) -> int:
        if not text.startswith('"', at):
            raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
        key, at = decode(text, at)
        at = skip_blanks(text, at)
        if not text.startswith(":", at):
            raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
        return visit(key, skip_blanks(text, at + 1))

    return walk_array(text, at, member, "}")


def walk_array(text: str, at: int, visit: Callable[[int], int], close: str = "]") -> int:
    """Walk the array at `at`: `visit` is told the place of each item, and says where that ends."""
    at = skip_blanks(text, at + 1)
    if text.startswith(close, at):
        return at + 1
    while True:
        at = skip_blanks(text, visit(at))
        if text.startswith(close, at):
            return at + 1
        if not text.startswith(",", at):
            raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
        at = skip_blanks(text, at + 1)


def skip_blanks(text: str, at: int) -> int:
    """The offset of the first character at or after `at` that is no blank."""
    match = _blanks(text, at)
    return match.end() if match is not None else at
