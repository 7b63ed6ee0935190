"""The report for people: findings by file with their source lines, then a summary to decide on a port by."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from anydevice.finding import Finding, Safety
from anydevice.report.summary import Counts, Report

_ROWS = 20  # files in the summary; more would hide the total
_MARKS = {Safety.SAFE: "[*] ", Safety.UNSAFE: "[!] ", Safety.MANUAL: ""}
_STYLES = {Safety.SAFE: "green", Safety.UNSAFE: "yellow", Safety.MANUAL: "magenta"}


def write(report: Report, stream: TextIO) -> None:
    """Print `report`; in colour only on a terminal."""
    console = Console(file=stream, soft_wrap=True, highlight=False, emoji=False, markup=False)
    for path, findings in report.by_file.items():
        console.print(Text(path, "bold underline"))
        for finding in findings:
            console.print(_lines(finding))
        console.print()
    if len(report.by_file) > 1:
        console.print(_table(report))
        console.print()
    for line in _closing(report):
        console.print(Text(line))


def _lines(finding: Finding) -> Text:
    span = finding.span
    cell = "" if span.cell is None else f"cell {span.cell}, "
    mark = _MARKS[finding.safety] if finding.fixable or finding.safety is Safety.MANUAL else ""
    text = Text("  ")
    text.append(f"{cell}{span.line}:{span.column} ", "cyan")
    text.append(f"{finding.code} ", "bold")
    text.append(mark, _STYLES[finding.safety])
    text.append(f"{finding.name}: ", "bold")
    text.append(finding.message)
    if finding.source:
        text.append("\n      | ", "dim")
        text.append(finding.source)
    return text


def _table(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("file", overflow="fold")
    for name in ("automatic", "with --unsafe", "to decide", "impossible"):
        table.add_column(name, justify="right")
    rows = sorted(report.by_file.items(), key=lambda item: -len(item[1]))
    for path, findings in rows[:_ROWS]:
        table.add_row(Text(path), *_cells(Counts.of(findings)))
    rest = rows[_ROWS:]
    if rest:
        others = Counts.of(finding for _, findings in rest for finding in findings)
        table.add_row(f"and {len(rest)} more files", *_cells(others))
    return table


def _cells(counts: Counts) -> list[str]:
    return [str(n) if n else "-" for n in (counts.automatic, counts.unsafe, counts.decision, counts.impossible)]


def _closing(report: Report) -> list[str]:
    lines = []
    if report.fixed:
        files = len({finding.path for finding in report.fixed})
        lines.append(f"Fixed {_number(len(report.fixed), 'finding')} in {_number(files, 'file')}.")
    for finding, reason in report.dropped:
        lines.append(f"Not fixed: {finding.place} {finding.code}: {reason}.")
    if report.suppressed:
        lines.append(f"{_number(report.suppressed, 'finding')} silenced by comments.")
    counts = report.counts
    if not counts.total:
        what = "Nothing is left to do" if report.fixed else "No device-bound code found"
        return [*lines, f"{what} in {_number(report.files, 'file')}."]
    where = f"in {len(report.by_file)} of {_number(report.files, 'file')}"
    found = f"{'Left' if report.fixed else 'Found'}: {_number(counts.total, 'finding')} {where}: {counts}."
    lines.append(found)
    if counts.automatic:
        lines.append(f"Run 'anydevice fix' to apply the {counts.automatic} marked [*].")
    if counts.unsafe:
        lines.append(f"Run 'anydevice fix --unsafe' to apply the {counts.unsafe} marked [!] too; read their diff.")
    return lines


def _number(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
