"""`# anydevice: ignore[CODE] reason` on a line silences findings there; the reason is asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from anydevice.finding import Finding
from anydevice.source.document import Document

_COMMENT = re.compile(rb"#\s*anydevice:\s*ignore(?:\[(?P<codes>[^\]\n]*)\])?[ \t]*(?P<reason>[^\n]*)")


@dataclass(frozen=True)
class Suppressed:
    """The findings that stand, how many were silenced, and notices about comments without a reason."""

    findings: tuple[Finding, ...]
    silenced: int
    notices: tuple[str, ...]


def suppress(document: Document, findings: Sequence[Finding]) -> Suppressed:
    """Drop the findings that a comment on one of their lines silences."""
    if b"anydevice:" not in document.data:
        return Suppressed(tuple(findings), 0, ())
    silenced: dict[tuple[int | None, int], tuple[str, ...]] = {}
    notices = []
    for match in _COMMENT.finditer(document.data):
        span = document.span(match.start(), match.end())
        codes = tuple(c.strip() for c in (match.group("codes") or b"").decode().split(",") if c.strip())
        silenced[span.cell, span.line] = codes
        if not match.group("reason").strip():
            notices.append(
                f"{document.name}:{span.line}: 'anydevice: ignore' without a reason; write why after the bracket"
            )
    kept = tuple(f for f in findings if not _silences(silenced, f))
    return Suppressed(kept, len(findings) - len(kept), tuple(notices))


def _silences(silenced: dict[tuple[int | None, int], tuple[str, ...]], finding: Finding) -> bool:
    for line in {finding.span.line, finding.span.end_line}:
        codes = silenced.get((finding.span.cell, line))
        if codes is not None and (not codes or any(finding.code.startswith(c) or finding.name == c for c in codes)):
            return True
    return False
