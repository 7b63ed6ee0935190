"""Sends a report where the user wants it: findings to stdout or a file, errors and notices to stderr."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from anydevice.cli.options import Stop
from anydevice.report import write
from anydevice.report.summary import Report


def emit(report: Report, format_: str, output: Path | None, *, quiet: bool = False) -> None:
    """Write `report`; with `quiet` only its errors and notices."""
    for line in (*report.skipped, *report.errors):
        click.echo(f"anydevice: {line}", err=True)
    if quiet:
        return
    if output is None:
        write(report, format_, sys.stdout)
        return
    try:
        with output.open("w", encoding="utf-8") as stream:
            write(report, format_, stream)
    except OSError as error:
        raise Stop(f"cannot write '{output}': {error.strerror}") from None
