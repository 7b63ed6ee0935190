"""`anydevice explain`: what an error message or a log says went wrong, and how to mend it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from anydevice.doctor.explain.explaining import Explanation

_SHOWN = 3  # explanations in full; what comes after the third is a line each


@click.command("explain")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
@click.option("--all", "everything", is_flag=True, help="Explain each known error in full, not only the likeliest.")
@click.argument("source", metavar="[FILE|-|MESSAGE]", default="-")
def command(source: str, as_json: bool, everything: bool) -> None:
    """Say what an error means, what mends it, and which popular mend does not help.

    The argument is a log file, '-' for standard input, or the message itself, in quotes. Nothing is sent anywhere.

    Exit status: 0 explained, 1 nothing in it is known, 2 it cannot be read.
    """
    found = _explain(source)
    if as_json:
        import json
        from dataclasses import asdict

        from anydevice.doctor import facts

        document = {"facts": facts.collected().isoformat(), "explanations": [asdict(one) for one in found]}
        click.echo(json.dumps(document, indent=2))
    elif found:
        click.echo(_text(found, len(found) if everything else _SHOWN))
    else:
        click.echo("no known cause: none of the known messages is in it")
    raise click.exceptions.Exit(0 if found else 1)


def _explain(source: str) -> list[Explanation]:
    from anydevice.doctor.explain.explaining import explain, explain_text
    from anydevice.doctor.explain.reading import UnreadableError

    try:
        if source == "-":
            if sys.stdin is None or sys.stdin.isatty():
                raise _stop("nothing to explain: give a log file, a message in quotes, or a log on standard input")
            return explain(sys.stdin.buffer)
        if os.path.lexists(source):
            with Path(source).open("rb") as stream:
                return explain(stream)
        if _looks_like_a_path(source):
            raise _stop(f"cannot read '{source}': there is no such file; put a message in quotes")
        return explain_text(source)
    except UnreadableError as error:
        raise _stop(f"cannot read '{source}': {error}") from None
    except OSError as error:
        raise _stop(f"cannot read '{source}': {(error.strerror or str(error)).lower()}") from None


def _looks_like_a_path(source: str) -> bool:
    """One word that is a path or ends as log files do: a message has several words."""
    return not any(character.isspace() for character in source) and (
        "/" in source or "\\" in source or Path(source).suffix in (".log", ".txt", ".out", ".err")
    )


def _stop(message: str) -> click.ClickException:
    from anydevice.cli.options import Stop

    return Stop(message)


def _text(found: list[Explanation], shown: int) -> str:
    from anydevice.report.plain import printable

    style = click.style if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else lambda text, **_: text
    lines: list[str] = []
    for rank, one in enumerate(found[:shown], start=1):
        number = f"{rank}. " if len(found) > 1 else ""
        times = f", {one.count} times" if one.count > 1 else ""
        lines.append(f"{number}{style(one.id, bold=True)} (line {one.line}{times}): {one.reason}")
        lines.append(f"    | {printable(one.message)}")
        lines.append(f"  why    {one.cause}")
        lines += [f"  seen   {printable(text)}" for text in one.seen]
        lines.append(f"  mend   {one.mend}")
        lines += [f"         $ {style(printable(text), fg='green')}" for text in one.commands]
        lines.append(f"  avoid  {one.avoid}")
        lines.append(f"  source {'; '.join(one.sources)}" + (f" ({one.note})" if one.note else ""))
        lines.append("")
    lines += [f"{one.id} (line {one.line}): {one.reason}" for one in found[shown:]]
    return "\n".join(lines).rstrip("\n")
