"""Jupyter notebooks: their code cells as one Python text, magics masked, and edits put back so that not a byte of the
file changes outside of the source of the cells that were edited."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from anydevice.finding import Edit, Span
from anydevice.source import edits as editing
from anydevice.source.document import Document, UnreadableError, UnwritableError, with_newline

# -- the document ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """A code cell: its `index` in the notebook, and where in the file's text its source stands.

    `tokens` are the JSON strings of which the source is made: the one at `start`, or the items of the list there.
    """

    index: int
    start: int
    end: int
    tokens: tuple[tuple[int, int], ...]
    source: str

    @property
    def is_list(self) -> bool:
        """Whether the source is stored as a list of lines."""
        return self.tokens != ((self.start, self.end),)


class NotebookDocument(Document):
    """The code cells of a notebook, one after the other, each ending in a newline.

    Names defined in one cell are thus known in those below it. `sources` are the cells' texts where they differ from
    the file's.
    """

    def __init__(
        self, path: Path, name: str, file_text: str, cells: tuple[Cell, ...], sources: tuple[str, ...] | None = None
    ) -> None:
        self._file_text = file_text
        self._cells = cells
        self._sources = tuple(cell.source for cell in cells) if sources is None else sources
        self._raw = [source.encode("utf-8", "surrogatepass") for source in self._sources]
        self._parts = [_mask(_ended(raw)) for raw in self._raw]
        self._offsets = [0]
        for part in self._parts:
            self._offsets.append(self._offsets[-1] + len(part.data))
        super().__init__(path, name, b"".join(part.data for part in self._parts))

    def span(self, start: int, end: int) -> Span:
        """The place of a byte range of `data`, in lines of its cell."""
        flat = super().span(start, end)
        if not self._cells:
            return replace(flat, cell=0)
        cell = self._cell_at(start)
        above = self._line(self._offsets[cell])
        return replace(flat, line=flat.line - above, end_line=flat.end_line - above, cell=self._cells[cell].index)

    @property
    def magics(self) -> list[tuple[int, int, str]]:
        """The masked lines that are not blank: index of the cell, line in it, text."""
        return [(self.span(at, at).cell or 0, self.span(at, at).line, text) for at, text in self._magic_lines]

    def magic_span(self, index: int) -> Span:
        """Where the line of `magics[index]` starts."""
        at = self._magic_lines[index][0]
        return self.span(at, at)

    @cached_property
    def _magic_lines(self) -> list[tuple[int, str]]:
        return [
            (offset + at, line.decode("utf-8", "replace"))
            for offset, raw, part in zip(self._offsets, self._raw, self._parts, strict=False)
            for at, line in _masked_lines(raw, part.blocks)
        ]

    # -- editing -----------------------------------------------------------------------------------------------

    def apply(self, edits: Iterable[Edit]) -> NotebookDocument:
        """A new notebook with the edits made; raises ValueError for one that reaches into a magic or over cells."""
        by_cell: dict[int, list[Edit]] = {}
        for edit in with_newline(edits, self.newline):
            cell, start = self._home(edit)
            span = replace(edit.span, start=start, end=start + edit.span.end - edit.span.start)
            by_cell.setdefault(cell, []).append(replace(edit, span=span))
        sources = list(self._sources)
        for cell, own in by_cell.items():
            raw = self._raw[cell]
            changed = editing.apply(_ended(raw), own)
            if not raw.endswith(b"\n"):
                changed = changed.removesuffix(b"\n").removesuffix(b"\r")
            sources[cell] = changed.decode("utf-8", "surrogatepass")
        return NotebookDocument(self.path, self.name, self._file_text, self._cells, tuple(sources))

    def _cell_at(self, offset: int) -> int:
        return min(bisect_right(self._offsets, offset) - 1, len(self._cells) - 1)

    def _home(self, edit: Edit) -> tuple[int, int]:
        """The cell in which an edit is to be made, and its start there.

        Between two cells there is a choice for whole lines. They go to the lower one, unless the upper one ends in an
        import or the lower one is no Python at that place.
        """
        start, end = edit.span.start, edit.span.end
        cell = self._cell_at(start) if self._cells else -1
        if cell < 0 or end > self._offsets[cell + 1]:
            raise ValueError(f"edit of bytes {start} to {end} is not within a cell")
        part, local = self._parts[cell], start - self._offsets[cell]
        between = start == end and edit.text.endswith("\n") and local in (0, len(part.data))
        if between:
            upper = self._parts[cell - 1] if cell and not local else part
            if part.is_python and not part.head and not local and not upper.ends_in_import:
                return cell, 0
            for above in range(cell, -1, -1):
                if self._parts[above].is_python and self._offsets[above + 1] <= start:
                    return above, len(self._parts[above].data)
            for below in range(cell, len(self._parts)):
                if self._parts[below].is_python:
                    return below, self._parts[below].head
        if (
            local < part.head
            or part.head == len(part.data)
            or any(a < local + end - start and local < b for a, b in part.blocks)
        ):
            raise ValueError(f"edit of bytes {start} to {end} is not within Python code")
        return cell, local

    # -- the file ----------------------------------------------------------------------------------------------

    def text(self) -> str:
        """The file: JSON in which only the sources of changed cells are written anew."""
        pieces: list[str] = []
        position = 0
        for cell, source in zip(self._cells, self._sources, strict=True):
            if source != cell.source:
                pieces += (self._file_text[position : cell.start], self._rendered(cell, source))
                position = cell.end
        return "".join((*pieces, self._file_text[position:]))

    def encoded(self) -> bytes:
        """The bytes of the file; a valid notebook stays one."""
        text = self.text()
        if text != self._file_text and not _is_valid(text) and _is_valid(self._file_text):
            raise UnwritableError(self.name, "the result would not be a valid notebook")
        return text.encode()

    def _rendered(self, cell: Cell, source: str) -> str:
        """`source` as JSON, in the layout that the cell had; lines that were there keep their spelling."""
        raw = [self._file_text[start + 1 : end - 1] for start, end in cell.tokens]
        if not cell.is_list:
            raw = [match.group() for match in re.finditer(r"(?:[^\\]|\\[^n])*(?:\\n|\Z)", raw[0])]
        old = [json.loads(f'"{inner}"') for inner in raw]
        spelling = dict(zip(old, raw, strict=True))
        # nbformat splits at form feeds and the like too, JupyterLab does not.
        by_python = cell.is_list and old == cell.source.splitlines(keepends=True)
        lines = source.splitlines(keepends=True) if by_python else re.findall(r".*\n|.+", source)
        items = [spelling[line] if line in spelling else self._spelt(line) for line in lines]
        if not cell.is_list:
            return '"' + "".join(items) + '"'
        before, between, after = self._layout(cell)
        return "[" + before + between.join(f'"{item}"' for item in items) + after + "]" if items else "[]"

    def _spelt(self, line: str) -> str:
        """A new line as the inside of a JSON string, in ASCII where the file has nothing else."""
        ascii_only = self._file_text.isascii() or re.search("[\ud800-\udfff]", line) is not None
        return json.dumps(line, ensure_ascii=ascii_only)[1:-1]

    def _layout(self, cell: Cell) -> tuple[str, str, str]:
        """What stands before, between and after the lines of the cell's source, learnt elsewhere where it has few."""
        text = self._file_text
        for model in (cell, *self._cells):
            if model.is_list and len(model.tokens) > 1:
                (first, first_end), (second, _), last_end = model.tokens[0], model.tokens[1], model.tokens[-1][1]
                return text[model.start + 1 : first], text[first_end:second], text[last_end : model.end - 1]
        if not cell.tokens:
            return "", ", ", ""
        before = text[cell.start + 1 : cell.tokens[0][0]]
        return before, "," + (before or " "), text[cell.tokens[-1][1] : cell.end - 1]


def parse(path: Path, name: str, raw: bytes) -> NotebookDocument:
    """The notebook in `raw`; without cells where its language is not Python. Raises UnreadableError."""
    try:
        text = raw.decode()
        start = _skip(text, 1 if text.startswith("\ufeff") else 0)
        reader = _Reader(text)
        if text[start : start + 1] != "{":
            json.loads(text[start:])  # says what is wrong where this is not JSON at all
            raise UnreadableError(name, "not a notebook: the JSON is no object")
        end = _skip(text, _object(text, start, reader.top))
        if end != len(text):
            raise json.JSONDecodeError("Extra data", text, end)
    except UnicodeDecodeError as error:
        raise UnreadableError(name, f"not valid UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        message = error.msg[:1].lower() + error.msg[1:]
        reason = f"not valid JSON at line {error.lineno}, column {error.colno}: {message}"
        raise UnreadableError(name, reason) from None
    except RecursionError:
        raise UnreadableError(name, "its JSON is nested too deeply") from None
    if reader.values.get("nbformat") not in (2, 3, 4) or not reader.has_cells:
        raise UnreadableError(name, "not a notebook of format 2, 3 or 4")
    return NotebookDocument(path, name, text, tuple(reader.cells) if reader.is_python else ())


def _is_valid(text: str) -> bool:
    from nbformat.validator import isvalid  # slow to import, and rarely needed

    try:
        return bool(isvalid(json.loads(text.removeprefix("\ufeff"))))  # type: ignore[no-untyped-call]
    except (AssertionError, KeyError, TypeError, ValueError):  # what it makes of notebooks that are far from valid
        return False


# -- JSON with places ------------------------------------------------------------------------------------------

_skip_blanks = re.compile(r"[ \t\r\n]*").match
_decode = json.JSONDecoder().raw_decode  # value and end, at the speed of C


class _Reader:
    """Walks to the sources of the code cells; everything else is passed over by the standard decoder."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.values: dict[str, Any] = {}
        self.cells: list[Cell] = []
        self.has_cells = False
        self._count = 0

    @property
    def is_python(self) -> bool:
        """Whether the notebook's language is Python, or not said."""
        metadata = self.values.get("metadata")
        for key, field in (("kernelspec", "language"), ("language_info", "name")):
            part = metadata.get(key) if isinstance(metadata, dict) else None
            if isinstance(part, dict) and isinstance(part.get(field), str):
                return "python" in part[field].lower()
        return True

    def top(self, key: str, at: int) -> int:
        """A member of the notebook; before format 4 the cells are in worksheets."""
        if key == "worksheets" and self.text.startswith("[", at):
            self.has_cells = True
            return _array(self.text, at, self._worksheet)
        if key == "cells":
            return self._in_sheet(key, at)
        self.values[key], end = _decode(self.text, at)
        return end

    def _worksheet(self, at: int) -> int:
        is_object = self.text.startswith("{", at)
        return _object(self.text, at, self._in_sheet) if is_object else _decode(self.text, at)[1]

    def _in_sheet(self, key: str, at: int) -> int:
        if key != "cells" or not self.text.startswith("[", at):
            return _decode(self.text, at)[1]
        self.has_cells = True
        return _array(self.text, at, self._cell)

    def _cell(self, at: int) -> int:
        index, self._count = self._count, self._count + 1
        if not self.text.startswith("{", at):
            return _decode(self.text, at)[1]
        values: dict[str, Any] = {}
        places: dict[str, tuple[int, int, tuple[tuple[int, int], ...]]] = {}

        def member(key: str, at: int) -> int:
            tokens: list[tuple[int, int]] = []

            def item(at: int) -> int:
                tokens.append((at, _decode(self.text, at)[1]))
                return tokens[-1][1]

            values[key], end = _decode(self.text, at)
            if key in ("source", "input"):
                _ = _array(self.text, at, item) if self.text.startswith("[", at) else item(at)
                places[key] = at, end, tuple(tokens)
            return end

        end = _object(self.text, at, member)
        key = "source" if "source" in values else "input"
        source = values.get(key)
        lines: list[Any] = source if isinstance(source, list) else [source]
        is_code = values.get("cell_type") == "code" and str(values.get("language", "python")).lower() == "python"
        if is_code and all(isinstance(line, str) for line in lines):
            self.cells.append(Cell(index, *places[key], "".join(lines)))
        return end


def _object(text: str, at: int, visit: Callable[[str, int], int]) -> int:
    """Walk the object at `at`: `visit` is told key and place of each value, and says where that ends."""

    def member(at: int) -> int:
        if not text.startswith('"', at):
            raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
        key, at = _decode(text, at)
        at = _skip(text, at)
        if not text.startswith(":", at):
            raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
        return visit(key, _skip(text, at + 1))

    return _array(text, at, member, "}")


def _array(text: str, at: int, visit: Callable[[int], int], close: str = "]") -> int:
    """Walk the array at `at`: `visit` is told the place of each item, and says where that ends."""
    at = _skip(text, at + 1)
    if text.startswith(close, at):
        return at + 1
    while True:
        at = _skip(text, visit(at))
        if text.startswith(close, at):
            return at + 1
        if not text.startswith(",", at):
            raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
        at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    match = _skip_blanks(text, at)
    return match.end() if match is not None else at


# -- magics ----------------------------------------------------------------------------------------------------

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
class _Part:
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


def _ended(raw: bytes) -> bytes:
    return raw if raw.endswith(b"\n") else raw + b"\n"


def _mask(raw: bytes) -> _Part:
    """`raw` with IPython's own syntax overwritten, byte for byte, by Python that does nothing."""
    raw = _SURROGATE.sub("\ufffd".encode(), raw)
    if _MAYBE.search(raw) is None:
        return _Part(raw)
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
    return _Part(bytes(data), tuple(blocks), head)


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


def _masked_lines(raw: bytes, blocks: Iterable[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
    """The whole lines of the masked blocks, and where each begins."""
    for start, end in blocks:
        at = max(raw.rfind(b"\n", 0, start), raw.rfind(b"\r", 0, start)) + 1
        for match in _LINE.finditer(raw, at):
            if match.start() >= end:
                break
            if match[1].strip():
                yield match.start(), match[1]
