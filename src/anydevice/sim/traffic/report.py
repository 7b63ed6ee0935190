"""Writes a summary to a file: JSON for machines, one self-contained HTML page for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from anydevice.sim.traffic.page import page
from anydevice.sim.traffic.summary import Row, Summary

FORMATS = (".html", ".json")


def write(summary: Summary, path: Path) -> None:
    """Write the report in the format that the ending of `path` names.

    Raises:
        ValueError: an ending that is neither `.html` nor `.json`.
        OSError: the file cannot be written.
    """
    if path.suffix not in FORMATS:
        raise ValueError(f"cannot write a report to '{path}': the name must end in {' or '.join(FORMATS)}")
    text = page(summary) if path.suffix == ".html" else json.dumps(as_json(summary), indent=2) + "\n"
    path.write_text(text, encoding="utf-8")


def as_json(summary: Summary) -> dict[str, Any]:
    """The summary as JSON values; `version` grows when a field changes its meaning."""
    return {
        "version": 1,
        "world": summary.world,
        "bus_bytes_per_second": summary.bus,
        "program_seconds": summary.seconds,
        "estimated_seconds": summary.estimate,
        "steps": summary.steps,
        "dropped_events": summary.dropped,
        "lines": [_row(row) for row in summary.rows],
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "path": row.line.path if row.line else None,
        "line": row.line.number if row.line else None,
        "function": row.line.function if row.line else None,
        "source": row.line.text if row.line else None,
        "kind": row.kind,
        "how": row.how,
        "count": row.count,
        "bytes": row.nbytes,
        "pinned": row.pinned,
        "non_blocking": row.non_blocking,
        "waits": row.waits,
        "created_on_host": row.fresh,
        "per_step": row.per_step,
        "estimated_seconds": row.seconds,
    }
