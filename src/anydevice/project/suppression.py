"""`# anydevice: ignore[CODE] reason` on a line silences findings there; the reason is asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from anydevice.finding import Finding
from anydevice.source.document import Document

_COMMENT = re.compile(rb"#[ \t]*anydevice:[ \t]*ignore\b[ \t]*(?:\[(?P<codes>[^\]\n]*)\])?:?[ \t]*(?P<reason>[^\r\n]*)")
_EVERYTHING = ""  # the beginning of every code


@dataclass(frozen=True)
class Suppressed:
    """The findings that stand, how many were silenced, and notices about comments without a reason."""

    findings: tuple[Finding, ...]
    silenced: int
    notices: tuple[str, ...]


def suppress(document: Document, findings: Sequence[Finding]) -> Suppressed:
    """Drop the findings that a comment on their first or last line silences."""
    if b"anydevice:" not in document.data:
        return Suppressed(tuple(findings), 0, ())
    silenced: dict[tuple[int | None, int], list[str]] = {}
    notices = []
    for match in _COMMENT.finditer(document.data):
        span = document.span(match.start(), match.end())
        here = silenced.setdefault((span.cell, span.line), [])
        if match["codes"] is None:
            here.append(_EVERYTHING)
        else:
            here += [code.strip() for code in match["codes"].decode().split(",") if code.strip()]
        if not match["reason"].strip():
            cell = "" if span.cell is None else f"cell {span.cell}:"
            place = f"{document.name}:{cell}{span.line}"
            notices.append(f"{place}: 'anydevice: ignore' without a reason; write why after the bracket")
    kept = tuple(f for f in findings if not _silences(silenced, f))
    return Suppressed(kept, len(findings) - len(kept), tuple(notices))


def _silences(silenced: dict[tuple[int | None, int], list[str]], finding: Finding) -> bool:
    span = finding.span
    codes = (*silenced.get((span.cell, span.line), ()), *silenced.get((span.cell, span.end_line), ()))
    return any(finding.code.startswith(code.upper()) or finding.name == code for code in codes)
