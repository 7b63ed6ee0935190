"""Jupyter notebooks: their code cells as one Python text, magics masked, and edits put back so that not a byte of the
file changes outside of the source of the cells that were edited."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from anydevice.finding import Edit, Span
from anydevice.source import edits as editing
from anydevice.source.cells import Cell, CellReader
from anydevice.source.document import Document, UnreadableError, UnwritableError, with_newline
from anydevice.source.magics import mask, masked_lines
from anydevice.source.rawjson import skip_blanks, walk_object


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
        self._parts = [mask(_ended(raw)) for raw in self._raw]
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
            for at, line in masked_lines(raw, part.blocks)
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
        start = skip_blanks(text, 1 if text.startswith("\ufeff") else 0)
        reader = CellReader(text)
        if text[start : start + 1] != "{":
            json.loads(text[start:])  # says what is wrong where this is not JSON at all
            raise UnreadableError(name, "not a notebook: the JSON is no object")
        end = skip_blanks(text, walk_object(text, start, reader.top))
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


def _ended(raw: bytes) -> bytes:
    return raw if raw.endswith(b"\n") else raw + b"\n"
