"""The text of a file that may be anything: too large, binary, in another encoding, not there."""

from __future__ import annotations

import codecs
import stat
from pathlib import Path

from anydevice.cli.options import because

LIMIT = 32 << 20  # the largest lock files seen are a few megabytes
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


class Unreadable(Exception):
    """A file cannot be judged. The message says which and why."""


def text_of(path: Path, limit: int = LIMIT) -> str:
    """The file's text; a byte order mark is obeyed, as pip does."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise Unreadable(f"cannot read '{path}': no regular file")
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except ValueError as error:  # a null byte in the name
        raise Unreadable(f"cannot read {str(path)!r}: {error}") from None
    except OSError as error:
        raise Unreadable(f"cannot read '{path}': {because(error)}") from None
    if len(data) > limit:
        raise Unreadable(f"cannot read '{path}': larger than {limit >> 20} MB")
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise Unreadable(f"cannot read '{path}': not valid {encoding} at byte {error.start}") from None
    if "\0" in text:
        raise Unreadable(f"cannot read '{path}': a binary file")
    return text
