"""Findings in, one format out. Nothing heavy is imported before a format is asked for."""

from __future__ import annotations

import importlib
from typing import TextIO

from anydevice.report.summary import Report

# format -> module with `write(report, stream)`
FORMATS = {"text": "text", "json": "json_report", "sarif": "sarif", "github": "github"}


def write(report: Report, format_: str, stream: TextIO) -> None:
    """Write `report` to `stream` in one of `FORMATS`."""
    if format_ not in FORMATS:
        raise ValueError(f"no format is called '{format_}'; there are {', '.join(FORMATS)}")
    importlib.import_module(f"anydevice.report.{FORMATS[format_]}").write(report, stream)
