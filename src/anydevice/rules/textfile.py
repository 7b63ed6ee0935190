"""What a rule about a file that is not Python is handed: the text, and the means to report and edit there."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.rule import Rule

if TYPE_CHECKING:
    from anydevice.source.document import Document
    from anydevice.source.notebook import NotebookDocument

_CELLS = {
    "shell": ("%%bash", "%%sh", "%%script", "%%cmd", "%%!", "%%zsh"),
    "written": ("%%writefile", "%%file", "%%python", "%%pypy"),
}


@dataclass(frozen=True)
class TextFile:
    """A configuration file, script or list of requirements."""

    document: Document

    @property
    def data(self) -> bytes:
        """The UTF-8 text."""
        return self.document.data

    def finding(
        self, rule: Rule, start: int, end: int, message: str, safety: Safety, replacement: str | None = None
    ) -> Finding:
        """A finding on a byte range, with its replacement when there is one."""
        span = self.document.span(start, end)
        edits = (Edit(span, replacement),) if replacement is not None and safety is not Safety.MANUAL else ()
        source = self.document.line_text(span).strip()
        return Finding(rule.code, rule.name, self.document.name, span, message, safety, edits, source)


@dataclass(frozen=True)
class NotebookCommands(TextFile):
    """The masked lines of a notebook as one text, in which nothing is edited.

    `kind` is `shell` (its `!` and `%` lines, and its cells of shell) or `written` (the cells that write a file).
    """

    document: NotebookDocument
    kind: str

    @cached_property
    def _lines(self) -> list[tuple[int, bytes]]:
        """Each line, with the offset in the document's text at which it begins."""
        kept = []
        head = ""
        cell = -1
        for index, (of, _, line) in enumerate(self.document.magics):
            if of != cell:
                cell, head = of, line.strip() if line.lstrip().startswith("%%") else ""
            if (not head and self.kind == "shell") or head.startswith(_CELLS[self.kind]):
                kept.append((self.document.magic_span(index).start, line.encode("utf-8", "replace")))
        return kept

    @cached_property
    def _starts(self) -> list[int]:
        """The offset of each line in `data`."""
        starts = [0]
        for _, line in self._lines:
            starts.append(starts[-1] + len(line) + 1)
        return starts

    @property
    def data(self) -> bytes:
        """The lines, one after the other."""
        return b"".join(line + b"\n" for _, line in self._lines)

    def finding(
        self, rule: Rule, start: int, end: int, message: str, safety: Safety, replacement: str | None = None
    ) -> Finding:
        """A finding on a byte range of `data`, placed in its cell."""
        index = bisect_right(self._starts, start) - 1
        offset, line = self._lines[index]
        column = start - self._starts[index]
        stop = min(column + end - start, len(line))
        span = self.document.span(offset + column, offset + stop)
        source = line.decode("utf-8", "replace").strip()
        return Finding(rule.code, rule.name, self.document.name, span, message, Safety.MANUAL, (), source)
