"""The report for people: findings by file with their source lines, then a summary to decide on a port by."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

import click

from anydevice.finding import Finding, Safety, Span
from anydevice.report.plain import printable, width
from anydevice.report.summary import Counts, Report

_ROWS = 20  # files in the summary; more would hide the total
_LONGEST = 160  # characters of a source line that are shown; generated code has lines of megabytes
_MARKS = {Safety.SAFE: "[*] ", Safety.UNSAFE: "[!] ", Safety.MANUAL: ""}
_COLOURS = {Safety.SAFE: "green", Safety.UNSAFE: "yellow", Safety.MANUAL: None}
_HEADINGS = ("automatic", "with --unsafe", "to decide", "impossible")

Paint = Callable[..., str]


def write(report: Report, stream: TextIO, *, statistics: bool = False) -> None:
    """Print `report`, with `statistics` also how many findings each rule has.

    In colour only on a terminal. Nothing is ever wrapped.
    """
    coloured = _wants_colour(stream)
    paint = click.style if coloured else _leave
    for path, findings in report.by_file.items():
        lines = [paint(printable(path), bold=True, underline=True)]
        for finding in findings:
            lines += _lines(finding, paint)
        _print([*lines, ""], stream, coloured=coloured)
    if len(report.by_file) > 1:
        columns = shutil.get_terminal_size().columns if stream.isatty() else None
        _print([*_table(report, paint, columns), ""], stream, coloured=coloured)
    if statistics and report.findings:
        _print([*_statistics(report, paint), ""], stream, coloured=coloured)
    _print(_closing(report), stream, coloured=coloured)


def _wants_colour(stream: TextIO) -> bool:
    """On a terminal that knows colours, unless https://no-color.org asks for none."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _leave(text: str, **_style: object) -> str:
    return text


def _print(lines: Sequence[str], stream: TextIO, *, coloured: bool) -> None:
    text = "".join(line + "\n" for line in lines)
    if coloured:
        click.echo(text, file=stream, nl=False)  # knows about old Windows terminals
    else:
        stream.write(text)


def _lines(finding: Finding, paint: Paint) -> Iterator[str]:
    span = finding.span
    cell = "" if span.cell is None else f"cell {span.cell}, "
    mark = _MARKS[finding.safety] if finding.fixable else ""
    message, *more = finding.message.splitlines() or [""]
    yield (
        f"  {paint(f'{cell}{span.line}:{span.column}', fg='cyan')} {paint(finding.code, bold=True)} "
        f"{paint(mark, fg=_COLOURS[finding.safety])}{paint(finding.name, bold=True)}: {printable(message)}"
    )
    for line in more:
        yield f"      {printable(line)}"
    if finding.source:
        shown = finding.source[:_LONGEST]
        yield paint("      | ", dim=True) + printable(shown) + ("" if shown == finding.source else "...")
        underline = _underline(span, shown)
        if underline:
            yield paint("      | ", dim=True) + paint(underline, fg=_COLOURS[finding.safety])


def _underline(span: Span, shown: str) -> str:
    """Carets under the part of `span` that lies on the line `shown`; nothing if none does."""
    start = span.column - 1
    if start >= max(len(shown), 1):
        return ""
    stop = span.end_column - 1 if span.line == span.end_line else len(shown)
    # A tab above needs a tab below, for its width depends on the terminal.
    margin = "".join(c if c == "\t" else " " * width(printable(c)) for c in shown[:start])
    return margin + "^" * max(1, width(printable(shown[start:stop])))


def _table(report: Report, paint: Paint, columns: int | None) -> Iterator[str]:
    """One row per file, those with most findings first; paths are cut to fit a terminal of so many columns."""
    files = sorted(report.by_file.items(), key=lambda item: (-len(item[1]), item[0]))
    rows = [(printable(path), Counts.of(findings)) for path, findings in files[:_ROWS]]
    rest = files[_ROWS:]
    if rest:
        others = Counts.of(finding for _, findings in rest for finding in findings)
        rows.append((f"and {_number(len(rest), 'more file')}", others))
    numbers = "  ".join(_HEADINGS)
    if columns is not None:
        rows = [(_cut(name, max(20, columns - len(numbers) - 3)), counts) for name, counts in rows]
    first = max(5, *(width(name) for name, _ in rows))
    yield paint(f"{'file':{first}}  {numbers}", bold=True)
    for name, counts in rows:
        yield _row(name, counts, first)
    yield paint(_row("total", report.counts, first), bold=True)


def _statistics(report: Report, paint: Paint) -> Iterator[str]:
    names = {finding.code: finding.name for finding in report.findings}
    yield paint("findings  rule", bold=True)
    for code, number in report.by_rule.items():
        yield f"{number:>8}  {code} {names[code]}"


def _cut(path: str, longest: int) -> str:
    """The end of a path, which says more than its beginning."""
    if width(path) <= longest:
        return path
    while width(path) > longest - 3:
        path = path[1:]
    return f"...{path}"


def _row(name: str, counts: Counts, first: int) -> str:
    numbers = (counts.automatic, counts.unsafe, counts.decision, counts.impossible)
    cells = (f"{number or '-':>{len(heading)}}" for number, heading in zip(numbers, _HEADINGS, strict=True))
    return "  ".join((name + " " * (first - width(name)), *cells))


def _closing(report: Report) -> list[str]:
    lines = []
    if report.fixed:
        files = len({finding.path for finding in report.fixed})
        lines.append(f"Fixed {_number(len(report.fixed), 'finding')} in {_number(files, 'file')}.")
    lines += [f"Not fixed: {printable(finding.place)} {finding.code}: {reason}." for finding, reason in report.dropped]
    if report.suppressed:
        lines.append(f"{_number(report.suppressed, 'finding')} silenced by comments.")
    if report.errors:  # they are told elsewhere, but without this the figures below would claim too much
        lines.append(f"{_number(len(report.errors), 'error')}: this report is not complete.")
    counts = report.counts
    if not counts.total:
        return [*lines, _nothing(report)]
    where = f"in {len(report.by_file)} of {_number(report.files, 'file')}"
    found = "Left" if report.fixed or report.dropped else "Found"
    lines.append(f"{found}: {_number(counts.total, 'finding')} {where}: {counts}.")
    if counts.automatic and not report.dropped:
        lines.append(f"Run 'anydevice fix' to apply the {counts.automatic} marked [*].")
    if counts.unsafe:
        lines.append(f"Run 'anydevice fix --unsafe' to apply the {counts.unsafe} marked [!] too; read their diff.")
    if counts.decision or counts.impossible:
        lines.append("No fix is offered for those without a mark; each says what to do.")
    return lines


def _nothing(report: Report) -> str:
    if not report.files:
        return "No files were looked at."
    what = "Nothing is left to do" if report.fixed else "No device-bound code found"
    return f"{what} in {_number(report.files, 'file')}."


def _number(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
