"""Applies the edits of findings to one document, pass by pass; a result that would no longer parse is refused."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Sequence
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


def fix(document: Document, examine: Callable[[Document], Sequence[Finding]], *, unsafe: bool = False) -> Fixed:
    """Apply what `examine` finds fixable, again and again until nothing is left to apply.

    `unsafe` also applies edits graded unsafe. A fix after which the document would no longer parse is dropped.
    """
    applied: list[Finding] = []
    dropped: dict[tuple[str, str], tuple[Finding, str]] = {}
    findings: Sequence[Finding] = examine(document)
    for _ in range(_PASSES):
        wanted = [f for f in findings if _wanted(f, unsafe) and _key(f) not in dropped]
        if not wanted:
            break
        accepted, _ = compatible([f.edits for f in wanted])
        batch = [wanted[index] for index in accepted]
        changed, refused = _apply(document, batch)
        for finding in refused:
            dropped[_key(finding)] = (finding, "the result would not parse")
        kept = [f for f in batch if f not in refused]
        if changed.data == document.data:
            break
        applied += kept
        document = changed
        findings = examine(document)
    return Fixed(document, tuple(applied), tuple(findings), tuple(dropped.values()))


def _wanted(finding: Finding, unsafe: bool) -> bool:
    return finding.fixable and (unsafe or finding.safety is Safety.SAFE)


def _key(finding: Finding) -> tuple[str, str]:
    """What stays the same of a finding when edits elsewhere shift it."""
    return finding.code, finding.source


def _apply(document: Document, batch: list[Finding]) -> tuple[Document, list[Finding]]:
    """The document with the batch applied, and those of the batch that had to be left out."""
    whole = document.apply([edit for finding in batch for edit in finding.edits])
    if still_parses(document, whole):
        return whole, []
    refused = []
    for finding in batch:
        alone = document.apply(finding.edits)
        if not still_parses(document, alone):
            refused.append(finding)
    good = [finding for finding in batch if finding not in refused]
    together = document.apply([edit for finding in good for edit in finding.edits])
    if still_parses(document, together):
        return together, refused
    return document, batch


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
