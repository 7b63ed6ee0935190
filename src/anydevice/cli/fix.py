"""`anydevice fix`: rewrite what ties code to one device."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from anydevice.cli.options import lines_since, settings_of, shared
from anydevice.finding import Finding


@click.command("fix")
@shared
@click.option("--diff", is_flag=True, help="Print the changes as a diff and write nothing.")
@click.option("--unsafe", is_flag=True, help="Also apply fixes that could change something in rare programs.")
def command(paths: tuple[Path, ...], diff: bool, revision: str | None, **values: Any) -> None:
    """Rewrite the code in PATHS (default: this folder) so that it runs on any device.

    Only safe fixes are applied: on a CUDA machine the program does what it did. What is left is reported.
    """
    from anydevice.cli.reporting import emit, tell
    from anydevice.project.ratchet import only_added
    from anydevice.project.tree import Tree
    from anydevice.report.progress import progress_bar
    from anydevice.report.summary import Report

    paths = paths or (Path(),)
    settings, root = settings_of(paths, values)
    added = lines_since(revision, root)
    tree = Tree(paths, settings, root=root)
    with progress_bar("scanning") as progress:
        scanned = tree.scan(progress)
    if added is not None:
        scanned.findings = only_added(scanned.findings, added)
    fixed: list[Finding] = []
    dropped: list[tuple[Finding, str]] = []
    left: dict[str, list[Finding]] = {}
    for finding in scanned.findings:
        left.setdefault(finding.path, []).append(finding)
    for file in tree.fix(scanned, write=not diff, added=added):
        if diff:
            click.echo(file.diff, nl=False)  # bytes, which no stream translates
        fixed += file.fixed.applied
        dropped += file.fixed.dropped
        left[file.name] = list(file.fixed.left)
    report = Report(
        findings=tuple(finding for findings in left.values() for finding in findings),
        files=scanned.files,
        notices=tuple(scanned.notices),
        errors=tuple(scanned.errors),
        suppressed=scanned.silenced,
        fixed=tuple(fixed),
        dropped=tuple(dropped),
    )
    if diff:
        tell((*report.notices, *report.errors))
        tell(f"would not fix {finding.place} {finding.code}: {reason}" for finding, reason in dropped)
        tell([f"would fix {len(fixed)} finding{'s' if len(fixed) != 1 else ''} and leave {len(report.findings)}"])
    else:
        emit(report, "text", None)
    sys.exit(2 if report.errors else 1 if report.findings or (diff and fixed) else 0)
