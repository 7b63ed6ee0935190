"""`anydevice fix`: rewrite what ties code to one device."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from anydevice.cli.options import Stop, settings_of, shared
from anydevice.finding import Finding


@click.command("fix")
@shared
@click.option("--diff", is_flag=True, help="Print the changes as a diff and write nothing.")
@click.option("--unsafe", is_flag=True, help="Also apply fixes that could change something in rare programs.")
def command(paths: tuple[Path, ...], diff: bool, revision: str | None, **values: Any) -> None:
    """Rewrite the code in PATHS (default: this folder) so that it runs on any device.

    Only safe fixes are applied: on a CUDA machine the program does what it did. What is left is reported.
    """
    from anydevice.cli.reporting import emit
    from anydevice.project.ratchet import RatchetError, added_lines, only_added
    from anydevice.project.tree import Tree
    from anydevice.report.progress import progress_bar
    from anydevice.report.summary import Report

    paths = paths or (Path(),)
    settings, root = settings_of(paths, values)
    tree = Tree(paths, settings, root=root)
    with progress_bar("scanning") as progress:
        scanned = tree.scan(progress)
    added = None
    if revision is not None:
        try:
            added = added_lines(revision, root)
            scanned.findings = list(only_added(scanned.findings, added))
        except RatchetError as error:
            raise Stop(str(error)) from None
    fixed: list[Finding] = []
    dropped: list[tuple[Finding, str]] = []
    left: dict[str, list[Finding]] = {finding.path: [] for finding in scanned.findings}
    for finding in scanned.findings:
        left[finding.path].append(finding)
    for file in tree.fix(scanned, write=not diff, added=added):
        if diff:
            click.echo(file.diff, nl=False)
        fixed += file.fixed.applied
        dropped += file.fixed.dropped
        left[file.name] = list(file.fixed.left)
    report = Report(
        findings=tuple(finding for findings in left.values() for finding in findings),
        files=scanned.files,
        skipped=tuple(scanned.notices),
        errors=tuple(scanned.errors),
        suppressed=scanned.silenced,
        fixed=tuple(fixed),
        dropped=tuple(dropped),
    )
    emit(report, "text", None, quiet=diff)
    sys.exit(2 if report.errors else 1 if report.findings or (diff and report.fixed) else 0)
