"""`anydevice scan`: find what ties code to one device."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from anydevice.cli.options import lines_since, settings_of, shared


@click.command("scan")
@shared
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "sarif", "github"]),
    default="text",
    help="Form of the report.",
)
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), help="Write the report to a file.")
@click.option("--imports", is_flag=True, help="Also look into the installed packages that the code imports.")
def command(
    paths: tuple[Path, ...], format_: str, output: Path | None, imports: bool, revision: str | None, **values: Any
) -> None:
    """Find what ties the code in PATHS (default: this folder) to one device.

    Nothing is changed, imported or run.
    """
    from anydevice.cli.reporting import emit
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
    findings = scanned.findings
    if imports:
        from anydevice.project.imports import scan_imports

        findings += scan_imports(tree)
    if added is not None:
        findings = only_added(findings, added)
    report = Report(
        findings=tuple(findings),
        files=scanned.files,
        notices=tuple(scanned.notices),
        errors=tuple(scanned.errors),
        suppressed=scanned.silenced,
    )
    emit(report, format_, output)
    sys.exit(2 if report.errors else 1 if report.findings else 0)
