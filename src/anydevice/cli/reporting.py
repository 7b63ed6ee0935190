"""Sends a report where the user wants it: findings to stdout or a file, errors and notices to stderr."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from anydevice.cli.options import Stop, because
from anydevice.report import write
from anydevice.report.plain import printable
from anydevice.report.summary import Report


def tell(lines: Iterable[str]) -> None:
    """Print notices and errors, one line each, to stderr."""
    for line in lines:
        click.echo(f"anydevice: {printable(line)}", err=True)


def emit(report: Report, format_: str, output: Path | None) -> None:
    """Write `report` to `output` or stdout, its errors and notices to stderr."""
    tell((*report.notices, *report.errors))
    if output is None:
        write(report, format_, sys.stdout)
        return
    whole = io.StringIO()
    write(report, format_, whole)
    try:
        output.write_text(whole.getvalue(), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise Stop(f"cannot write '{output}': {because(error)}") from None
