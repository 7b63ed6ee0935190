"""The report as workflow commands, which GitHub Actions shows as annotations on the lines.

Levels are those of SARIF here: a warning where a fix mends it, a notice where a person must decide.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TextIO

from anydevice.finding import Finding
from anydevice.report.summary import Report


def write(report: Report, stream: TextIO) -> None:
    """Write one command per finding and per error."""
    stream.write(render(report))


def render(report: Report) -> str:
    """The commands, one a line."""
    commands = [_command(finding) for finding in report.findings]
    commands += [f"::error title=anydevice::{_data(error)}" for error in report.errors]
    return "".join(f"{command}\n" for command in commands)


def _command(finding: Finding) -> str:
    span = finding.span
    level = "warning" if finding.fixable else "notice"
    properties = {"file": PurePath(finding.path).as_posix(), "title": f"{finding.code} {finding.name}"}
    message = finding.message
    if span.cell is None:
        properties |= {"line": str(span.line), "endLine": str(span.end_line), "col": str(span.column)}
        if span.line == span.end_line:  # GitHub takes columns within one line only
            properties["endColumn"] = str(span.end_column)
    else:  # the lines of a cell are not lines of the file
        message = f"cell {span.cell}, line {span.line}: {message}"
    listed = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{level} {listed}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
