"""How a Python file says its text is encoded (PEP 263), and that text as UTF-8. Nothing here opens a file."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, replace
from tokenize import detect_encoding

_FIRST_LINES = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)?[^\r\n]*")  # where a coding line may stand (PEP 263)


class UndecodableError(Exception):
    """Bytes that are no text in the encoding they are said to have; the message says why."""


@dataclass(frozen=True)
class Form:
    """How the text of a file was stored.

    `unedited` pairs the bytes of a file that is not UTF-8 with its text, for some encodings can say one thing in
    several ways.
    """

    encoding: str = "utf-8"
    bom: bool = False
    lone_cr: bool = False  # all lines end in "\r"; `data` has "\n" instead, which parsers know
    unedited: tuple[bytes, bytes] | None = None


def decoded_python(raw: bytes) -> tuple[bytes, Form]:
    """The text of a Python file as UTF-8, and how it was stored. Raises UndecodableError."""
    try:
        encoding = _declared(raw)
    except SyntaxError as error:
        message = str(error)
        if message.startswith("unknown encoding"):
            raise UndecodableError(f"unknown encoding '{message.partition(': ')[2]}' in its coding line") from None
        if raw.startswith(codecs.BOM_UTF8) and "encoding problem" in message:
            raise UndecodableError("its byte order mark says UTF-8, its coding line something else") from None
        encoding = "utf-8"  # what stands before the coding line is not UTF-8: let decoding say where
    has_line = b"coding" in _first_lines(raw)
    return decoded(raw, encoding, "" if has_line else "; add a coding line")


def _declared(raw: bytes) -> str:
    """The encoding of a Python file by the rules of PEP 263; raises SyntaxError."""
    first = _first_lines(raw)
    if b"coding" not in first:
        return "utf-8"
    lines = iter(line + b"\n" for line in first.splitlines())
    return detect_encoding(lambda: next(lines, b""))[0].removesuffix("-sig")


def _first_lines(raw: bytes) -> bytes:
    match = _FIRST_LINES.match(raw)
    return match.group() if match is not None else b""


def decoded(raw: bytes, encoding: str, advice: str) -> tuple[bytes, Form]:
    """The text as UTF-8, and how it was stored. Raises UndecodableError, which ends in `advice` for a wrong byte."""
    bom = raw.startswith(codecs.BOM_UTF8)
    data = raw[3:] if bom else raw
    lone_cr = b"\r" in raw and b"\n" not in raw
    form = Form(encoding, bom, lone_cr)
    try:
        if not raw.isascii() or encoding != "utf-8":
            # An encoding in which ASCII is not ASCII cannot have been read from the file's own coding line.
            if "coding".encode(encoding) != b"coding":
                raise UndecodableError(f"its coding line says {encoding}, which it cannot be")
            text = data.decode(encoding)
            if encoding != "utf-8":
                data = text.encode()
                form = replace(form, unedited=(raw, data.replace(b"\r", b"\n") if lone_cr else data))
    except UnicodeDecodeError as error:
        place = error.start + (len(raw) - len(data))
        label = "UTF-8" if encoding == "utf-8" else encoding
        raise UndecodableError(f"not valid {label} at byte {place}{advice}") from None
    except (LookupError, ValueError) as error:
        raise UndecodableError(f"cannot be decoded as {encoding}: {error}") from None
    return data.replace(b"\r", b"\n") if lone_cr else data, form


def declares(raw: bytes, encoding: str) -> bool:
    """Whether Python would read `raw` in `encoding`: an edit may have moved the coding line."""
    try:
        return _declared(raw) == encoding
    except SyntaxError:
        return False
