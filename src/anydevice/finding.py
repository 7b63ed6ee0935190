"""The one value that crosses every boundary: a finding, its place, and the edits that would mend it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Safety(str, Enum):
    """How much trust the edits of a finding deserve."""

    SAFE = "safe"  # on a CUDA machine the program does exactly what it did; elsewhere it now runs
    UNSAFE = "unsafe"  # right in nearly every program, but something could change; only with --unsafe
    MANUAL = "manual"  # a person must decide; never edited


@dataclass(frozen=True, order=True)
class Span:
    """A stretch of a document.

    `start` and `end` are byte offsets into the document's UTF-8 text (`Document.data`). Lines and columns are
    1-based; columns count characters. In a notebook, lines are those of cell `cell` (0-based); else `cell` is None.
    """

    start: int
    end: int
    line: int
    column: int
    end_line: int
    end_column: int
    cell: int | None = None


@dataclass(frozen=True)
class Edit:
    """Replace the text of `span` by `text`. Equal edits of several findings are applied once."""

    span: Span
    text: str


@dataclass(frozen=True)
class Finding:
    """One thing that ties the code to a device: where it is, why it matters, and what to write instead.

    `message` says what is wrong and what to do; `source` is the source line of its start; `edits` mend it
    together or not at all (empty for `Safety.MANUAL`).
    """

    code: str
    name: str
    path: str
    span: Span
    message: str
    safety: Safety
    edits: tuple[Edit, ...] = ()
    source: str = ""

    @property
    def fixable(self) -> bool:
        """Whether there is anything to apply."""
        return bool(self.edits) and self.safety is not Safety.MANUAL

    @property
    def place(self) -> str:
        """`path:line:column`, with the cell for a notebook: `path:cell 3:line:column`."""
        cell = "" if self.span.cell is None else f"cell {self.span.cell}:"
        return f"{self.path}:{cell}{self.span.line}:{self.span.column}"
