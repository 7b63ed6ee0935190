"""A file as the scanner sees it: UTF-8 text in, exact bytes out. Python files and plain text live here, notebooks next
door; line ends and the safe way to write a file are settled here, encodings in `encoding`."""

from __future__ import annotations

import codecs
import os
import re
import stat
import time
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from anydevice.finding import Edit, Span
from anydevice.source import edits as editing
from anydevice.source.encoding import Form, UndecodableError, declares, decoded, decoded_python

MAX_BYTES = 5 << 20  # larger files are data, not code
MAX_NOTEBOOK_BYTES = 100 << 20  # the outputs of a notebook are large, its code is not

_BINARY = getattr(os, "O_BINARY", 0)  # Windows would turn line ends
_PYTHON = frozenset({".py", ".pyi", ".pyw"})
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


class UnreadableError(Exception):
    """A file that cannot be read; the text says which and why, in one line."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"cannot read '{self.path}': {self.reason}"


class TooLargeError(UnreadableError):
    """A file so large that it is left out; worth a notice rather than an error."""


class UnwritableError(OSError):
    """A file that cannot be written; it is as it was."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(f"cannot write '{path}': {reason}")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type[UnwritableError], tuple[Path | str, str]]:
        return type(self), (self.path, self.reason)


class Document(ABC):
    """A file's text. `data` is what is scanned: UTF-8 without a byte order mark. Documents never change."""

    def __init__(self, path: Path, name: str, data: bytes) -> None:
        self.path = path
        self.name = name
        self.data = data

    @abstractmethod
    def apply(self, edits: Iterable[Edit]) -> Document:
        """A new document with the edits made; a "\\n" in their text becomes the line end of the document."""

    @abstractmethod
    def encoded(self) -> bytes:
        """The bytes of the file. Raises UnwritableError where the text cannot be expressed in its encoding."""

    @abstractmethod
    def text(self) -> str:
        """The file as text: what a diff compares."""

    # -- places ------------------------------------------------------------------------------------------------

    def span(self, start: int, end: int) -> Span:
        """The place of a byte range of `data`."""
        first, last = self._line(start), self._line(end)
        return Span(start, end, first + 1, self._column(first, start), last + 1, self._column(last, end))

    def line_text(self, span: Span) -> str:
        """The source line at the start of `span`, without its end."""
        line = self._line(span.start)
        stop = self._starts[line + 1] if line + 1 < len(self._starts) else len(self.data)
        return self.data[self._starts[line] : stop].decode().rstrip("\r\n")

    @cached_property
    def newline(self) -> str:
        """The line end that most lines have."""
        if b"\r" not in self.data:
            return "\n"
        pairs = self.data.count(b"\r\n")
        lone = {"\n": self.data.count(b"\n") - pairs, "\r\n": pairs, "\r": self.data.count(b"\r") - pairs}
        return max(lone, key=lone.__getitem__)

    @cached_property
    def _starts(self) -> list[int]:
        """The offset at which each line starts."""
        lines = self.data.splitlines(keepends=True)  # of bytes: at "\n", "\r" and "\r\n" only
        starts = list(accumulate(map(len, lines), initial=0))
        if lines and not lines[-1].endswith((b"\n", b"\r")):
            starts.pop()
        return starts

    @cached_property
    def _ascii(self) -> bool:
        return self.data.isascii()

    def _line(self, offset: int) -> int:
        return bisect_right(self._starts, offset) - 1

    def _column(self, line: int, offset: int) -> int:
        start = self._starts[line]
        return 1 + (offset - start if self._ascii else len(self.data[start:offset].decode("utf-8", "replace")))

    # -- files -------------------------------------------------------------------------------------------------

    def diff(self, other: Document) -> str:
        """What turns this document into `other`, for `patch -p1`."""
        return editing.unified_diff(self.name, self.text(), other.text())

    def write(self) -> None:
        """Replace the file in one step, permissions kept; of a symlink, the file it points to.

        Raises UnwritableError and leaves everything as it was where that cannot be done.
        """
        content = self.encoded()
        try:
            target = self.path.resolve(strict=True)
            status = target.stat()
            # Renaming over a read-only file works, and root may write anything; neither is what its owner meant.
            if not status.st_mode & 0o222 or not os.access(target, os.W_OK):
                raise UnwritableError(self.name, "the file is read-only")
            if not target.parent.stat().st_mode & 0o222 or not os.access(target.parent, os.W_OK):
                raise UnwritableError(self.name, "its folder is read-only")
            _replace(target, content, status)
        except UnwritableError:
            raise
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symlinks
            raise UnwritableError(self.name, _reason(error)) from error


class _FlatDocument(Document):
    """A document whose file is its text."""

    def __init__(self, path: Path, name: str, data: bytes, form: Form | None = None) -> None:
        super().__init__(path, name, data)
        self.form = form or Form()

    @cached_property
    def newline(self) -> str:
        """The line end that most lines have."""
        return "\r" if self.form.lone_cr else super().newline

    def apply(self, edits: Iterable[Edit]) -> Document:
        """A new document with the edits made."""
        newline = "\n" if self.form.lone_cr else self.newline
        return type(self)(self.path, self.name, editing.apply(self.data, with_newline(edits, newline)), self.form)

    def text(self) -> str:
        """The file as text, byte order mark included."""
        text = self.data.decode()
        text = text.replace("\n", "\r") if self.form.lone_cr else text
        return "\ufeff" + text if self.form.bom else text

    def encoded(self) -> bytes:
        """The bytes of the file."""
        form = self.form
        if form.unedited is None:
            return self.text().encode()
        raw, text = form.unedited
        if text == self.data:
            return raw
        try:
            content = self.text().encode(form.encoding)
        except UnicodeEncodeError as error:
            character = error.object[error.start : error.start + 1]
            raise UnwritableError(self.name, f"'{character}' does not exist in its encoding, {form.encoding}") from None
        again = type(self)(self.path, self.name, text, form).text().encode(form.encoding)
        if again != raw or not declares(content, form.encoding):
            raise UnwritableError(self.name, f"its encoding, {form.encoding}, would not survive the change")
        return content


class PythonDocument(_FlatDocument):
    """A Python file."""


class TextDocument(_FlatDocument):
    """A configuration file, a script, a list of requirements."""


def read(path: Path, name: str | None = None, *, max_bytes: int | None = None) -> Document:
    """Read a file as what its suffix says: Python, notebook or text. `name` is how it is shown.

    Raises UnreadableError, and TooLargeError above `max_bytes`.
    """
    shown = str(path) if name is None else name
    suffix = path.suffix.lower()
    if suffix == ".ipynb":
        from anydevice.source import notebook  # it builds on this module

        return notebook.parse(path, shown, _load(path, shown, MAX_NOTEBOOK_BYTES if max_bytes is None else max_bytes))
    raw = _load(path, shown, MAX_BYTES if max_bytes is None else max_bytes)
    try:
        if suffix in _PYTHON:
            return PythonDocument(path, shown, *decoded_python(raw))
        return TextDocument(path, shown, *decoded(raw, "utf-8", "; save it as UTF-8"))
    except UndecodableError as error:
        raise UnreadableError(shown, str(error)) from None


def with_newline(edits: Iterable[Edit], newline: str) -> Iterable[Edit]:
    """The edits with the line ends of a document; a "\\r\\n" that an edit copied from there is left as it is."""
    if newline == "\n":
        return edits
    return [
        replace(edit, text=re.sub(r"(?<!\r)\n", newline, edit.text)) if "\n" in edit.text else edit for edit in edits
    ]


# -- reading ---------------------------------------------------------------------------------------------------


def _load(path: Path, shown: str, limit: int) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
            raise UnreadableError(shown, "is a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file")
        if status.st_size > limit:
            raise TooLargeError(shown, f"{status.st_size} bytes are more than the limit of {limit}")
        with path.open("rb", buffering=0) as stream:
            raw = stream.read()
    except OSError as error:
        raise UnreadableError(shown, _reason(error)) from error
    if raw.startswith(_UTF16):
        raise UnreadableError(shown, "UTF-16 or UTF-32 text; save it as UTF-8")
    if b"\0" in raw:
        raise UnreadableError(shown, "binary file")
    return raw


# -- writing ---------------------------------------------------------------------------------------------------


def _replace(target: Path, content: bytes, status: os.stat_result) -> None:
    """Put `content` in place of a file, with its permissions and, where allowed, its owner."""
    temporary = target.with_name(f".{os.getpid()}-{time.time_ns()}.anydevice")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600), "wb") as file:
            file.write(content)
        if hasattr(os, "chown") and (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
            with suppress(PermissionError):
                os.chown(temporary, status.st_uid, status.st_gid)
        temporary.chmod(stat.S_IMODE(status.st_mode))
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _reason(error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    return reason[:1].lower() + reason[1:]
