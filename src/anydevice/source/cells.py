"""Where the sources of a notebook's code cells stand in the text of its file, in formats 2 to 4; what is in them is not
looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anydevice.source.rawjson import decode, walk_array, walk_object


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


class CellReader:
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
            return walk_array(self.text, at, self._worksheet)
        if key == "cells":
            return self._in_sheet(key, at)
        self.values[key], end = decode(self.text, at)
        return end

    def _worksheet(self, at: int) -> int:
        is_object = self.text.startswith("{", at)
        return walk_object(self.text, at, self._in_sheet) if is_object else decode(self.text, at)[1]

    def _in_sheet(self, key: str, at: int) -> int:
        if key != "cells" or not self.text.startswith("[", at):
            return decode(self.text, at)[1]
        self.has_cells = True
        return walk_array(self.text, at, self._cell)

    def _cell(self, at: int) -> int:
        index, self._count = self._count, self._count + 1
        if not self.text.startswith("{", at):
            return decode(self.text, at)[1]
        values: dict[str, Any] = {}
        places: dict[str, tuple[int, int, tuple[tuple[int, int], ...]]] = {}

        def member(key: str, at: int) -> int:
            tokens: list[tuple[int, int]] = []

            def item(at: int) -> int:
                tokens.append((at, decode(self.text, at)[1]))
                return tokens[-1][1]

            values[key], end = decode(self.text, at)
            if key in ("source", "input"):
                _ = walk_array(self.text, at, item) if self.text.startswith("[", at) else item(at)
                places[key] = at, end, tuple(tokens)
            return end

        end = walk_object(self.text, at, member)
        key = "source" if "source" in values else "input"
        source = values.get(key)
        lines: list[Any] = source if isinstance(source, list) else [source]
        is_code = values.get("cell_type") == "code" and str(values.get("language", "python")).lower() == "python"
        if is_code and all(isinstance(line, str) for line in lines):
            self.cells.append(Cell(index, *places[key], "".join(lines)))
        return end
