"""The report for programs; its form is schema/report.schema.json."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.resources import files
from typing import Any, TextIO

from anydevice import __version__
from anydevice.finding import Finding, Span
from anydevice.report.summary import Counts, Report

VERSION = 1  # of the form; raised when a program that reads it would break


def write(report: Report, stream: TextIO) -> None:
    """Write `report` as one JSON object."""
    stream.write(render(report))


def render(report: Report) -> str:
    """`report` as the text of one JSON object."""
    # ASCII, so that it is valid whatever the encoding of the stream, and file names that are no text are kept.
    return json.dumps(as_object(report), indent=2) + "\n"


def schema() -> dict[str, Any]:
    """The JSON schema that every report follows."""
    loaded: dict[str, Any] = json.loads((files("anydevice.report") / "schema" / "report.schema.json").read_bytes())
    return loaded


def as_object(report: Report) -> dict[str, Any]:
    """`report` as plain lists and dicts."""
    return {
        "version": VERSION,
        "tool": {"name": "anydevice", "version": __version__},
        "findings": [_finding(finding) for finding in report.findings],
        "fixed": [_finding(finding) for finding in report.fixed],
        "summary": {
            "files": report.files,
            "findings": report.counts.total,
            "suppressed": report.suppressed,
            **asdict(report.counts),
            "per_file": {path: asdict(Counts.of(findings)) for path, findings in report.by_file.items()},
            "per_rule": report.by_rule,
        },
        "notices": list(report.notices),
        "errors": list(report.errors),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "path": finding.path,
        "cell": finding.span.cell,
        **_place(finding.span),
        "message": finding.message,
        "safety": finding.safety.value,
        "fixable": finding.fixable,
        "source": finding.source,
        "edits": [
            {
                "cell": edit.span.cell,
                **_place(edit.span),
                "start": edit.span.start,
                "end": edit.span.end,
                "text": edit.text,
            }
            for edit in finding.edits
        ],
    }


def _place(span: Span) -> dict[str, int]:
    return {"line": span.line, "column": span.column, "end_line": span.end_line, "end_column": span.end_column}
