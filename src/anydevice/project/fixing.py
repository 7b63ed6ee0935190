"""Applies the edits of findings to one document, pass by pass; a result that would no longer parse is refused."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from anydevice.finding import Finding, Safety
from anydevice.source.document import Document, PythonDocument
from anydevice.source.edits import compatible
from anydevice.source.notebook import NotebookDocument
from anydevice.source.syntax import parse

_PASSES = 12  # enough for edits nested in edits; each pass applies every edit that overlaps no other


@dataclass(frozen=True)
class Fixed:
    """A fixed document: what was applied, what is left, and the fixes that were refused, with the reason."""

    document: Document
    applied: tuple[Finding, ...]
    left: tuple[Finding, ...]
    dropped: tuple[tuple[Finding, str], ...]


@dataclass(frozen=True)
class Pass:
    """One round of fixing: the document before and after, what was applied, and what was refused, with the reason."""

    before: Document
    after: Document
    applied: tuple[Finding, ...]
    dropped: tuple[tuple[Finding, str], ...]


def fix(document: Document, examine: Callable[[Document], Sequence[Finding]], *, unsafe: bool = False) -> Fixed:
    """Apply what `examine` finds fixable, again and again until nothing is left to apply.

    `unsafe` also applies edits graded unsafe. A fix after which the document would no longer parse is dropped.
    """
    applied: list[Finding] = []
    dropped: list[tuple[Finding, str]] = []
    for one in passes(document, examine, unsafe=unsafe):
        applied += one.applied
        dropped += one.dropped
        document = one.after
    return Fixed(document, tuple(applied), tuple(examine(document)), tuple(dropped))


def passes(
    document: Document, examine: Callable[[Document], Sequence[Finding]], *, unsafe: bool = False
) -> Iterator[Pass]:
    """The rounds of `fix`, each with all edits that overlap no other."""
    refused: set[tuple[str, str]] = set()
    for _ in range(_PASSES):
        wanted = [f for f in examine(document) if _wanted(f, unsafe) and _key(f) not in refused]
        accepted, _ = compatible([f.edits for f in wanted])
        batch = [wanted[index] for index in accepted]
        changed, bad = _apply(document, batch)
        refused.update(_key(finding) for finding in bad)
        done = Pass(
            document,
            changed,
            tuple(f for f in batch if f not in bad),
            tuple((f, "the result would not parse") for f in bad),
        )
        if done.applied or done.dropped:
            yield done
        if changed.data == document.data:
            return
        document = changed


def _wanted(finding: Finding, unsafe: bool) -> bool:
    return finding.fixable and (unsafe or finding.safety is Safety.SAFE)


def _key(finding: Finding) -> tuple[str, str]:
    """What stays the same of a finding when edits elsewhere shift it."""
    return finding.code, finding.source.strip()


def _apply(document: Document, batch: list[Finding]) -> tuple[Document, list[Finding]]:
    """The document with the batch applied, and those of the batch that had to be left out."""
    whole = _attempt(document, batch)
    if whole is not None:
        return whole, []
    good = [finding for finding in batch if _attempt(document, [finding]) is not None]
    together = _attempt(document, good)
    if together is not None:
        return together, [finding for finding in batch if finding not in good]
    return document, batch


def _attempt(document: Document, batch: Sequence[Finding]) -> Document | None:
    """The document with the edits of the batch made; None where they cannot be, or where it would no longer parse."""
    try:
        changed = document.apply([edit for finding in batch for edit in finding.edits])
    except ValueError:  # into a notebook's magic, for one
        return None
    return changed if still_parses(document, changed) else None


def still_parses(before: Document, after: Document) -> bool:
    """Whether `after` parses where `before` did: by this Python's grammar, and by the error-tolerant one."""
    if not isinstance(before, PythonDocument | NotebookDocument):
        return True
    if parses(before.data):
        return parses(after.data)
    return _errors(after.data) <= _errors(before.data)


def parses(data: bytes) -> bool:
    """Whether this Python can parse `data`; nothing is run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(data)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def _errors(data: bytes) -> int:
    """The number of places that the error-tolerant parser could not read."""
    root = parse(data).root_node
    if not root.has_error:
        return 0
    count, stack = 0, [root]
    while stack:
        node = stack.pop()
        if node.is_error or node.is_missing:
            count += 1
        elif node.has_error:
            stack.extend(node.children)
    return count
