"""What `scan` and `fix` share on the command line: paths, selection, settings, and how errors end the program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from anydevice.project.settings import Settings, SettingsError, load, project_root
from anydevice.report.plain import printable

if TYPE_CHECKING:
    from anydevice.project.ratchet import AddedLines

F = TypeVar("F", bound=Callable[..., Any])

_SHARED = (
    click.argument("paths", nargs=-1, type=click.Path(path_type=Path)),
    click.option(
        "--select", multiple=True, metavar="CODE", help="Only rules of this code or name (ADA, ADA01...); repeatable."
    ),
    click.option("--ignore", multiple=True, metavar="CODE", help="Not rules of this code or name; repeatable."),
    click.option(
        "--exclude", multiple=True, metavar="PATTERN", help="Skip files that match, in .gitignore's syntax; repeatable."
    ),
    click.option(
        "--torch", metavar="VERSION", help="The oldest torch to support; by default read from the project's pins."
    ),
    click.option("--no-gitignore", is_flag=True, help="Also look at files that .gitignore names."),
    click.option("--no-cache", is_flag=True, help="Neither read nor write the cache."),
    click.option("-j", "--jobs", type=click.IntRange(min=1), help="Worker processes; by default one per processor."),
    click.option("--diff-only", "revision", metavar="REV", help="Only lines added since this git revision."),
)


def shared(function: F) -> F:
    """Add the shared arguments and options to a command."""
    for decorate in reversed(_SHARED):
        function = decorate(function)
    return function


def split(values: tuple[str, ...]) -> tuple[str, ...] | None:
    """`("ADA,ADB01", "ADC")` as three selectors; None where nothing was given."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip()) or None


def lines_since(revision: str | None, root: Path) -> AddedLines | None:
    """The lines added since a revision; None where none is asked for. Ends the program where git cannot tell."""
    if revision is None:
        return None
    from anydevice.project.ratchet import RatchetError, added_lines

    try:
        return added_lines(revision, root)
    except RatchetError as error:
        raise Stop(str(error)) from None


def settings_of(paths: tuple[Path, ...], values: dict[str, Any]) -> tuple[Settings, Path]:
    """The settings in force and the project's root. Ends the program with status 2 where they cannot be used."""
    root = project_root(paths)
    overrides = {
        "select": split(values["select"]),
        "ignore": split(values["ignore"]),
        "exclude": split(values["exclude"]),
        "torch": values["torch"],
        "jobs": values["jobs"],
        "respect_gitignore": False if values["no_gitignore"] else None,
        "cache": False if values["no_cache"] else None,
        "unsafe": values.get("unsafe") or None,
    }
    try:
        settings = load(root, overrides)
        if settings.select or settings.ignore:  # loading the rules takes a while, and a cached scan needs none
            from anydevice.rules.registry import select

            select(settings.select, settings.ignore)
    except (SettingsError, ValueError) as error:
        raise Stop(str(error)) from None
    return settings, root


def because(error: OSError) -> str:
    """The system's reason, to end a message with: `no such file or directory`."""
    reason = error.strerror or str(error)
    return reason[:1].lower() + reason[1:]


class Stop(click.ClickException):
    """Ends the program with status 2 and one line on stderr."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Print the line."""
        click.echo(f"anydevice: {printable(self.message)}", file=file, err=True)
