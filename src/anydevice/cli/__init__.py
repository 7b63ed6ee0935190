"""The command line: one file per verb, loaded when it is called."""

from __future__ import annotations

import difflib
import importlib
import io
import os
import sys
from pathlib import Path
from typing import Any

import click

from anydevice import __version__

_INTERRUPTED = 128 + 2  # what shells say of a program that Ctrl-C (signal 2) has ended

# verb -> what the overview says of it; the command is `anydevice.cli.<verb>.command`
VERBS = {
    "scan": "Find what ties code to one device.",
    "fix": "Rewrite it so that it runs on any device.",
    "sim": "Run a program as if on another machine.",
    "run": "Run a program written for CUDA on the device that is there.",
    "explain": "Say what an error message or a log means.",
    "rules": "List the rules, or explain one.",
    "demo": "Scan, fix and train a small legacy project.",
}


class _Verbs(click.Group):
    """Loads a verb's module only when the verb is asked for."""

    def invoke(self, ctx: click.Context) -> Any:
        if sys.stdout is None:  # closed by the caller (`>&-`), who wants the exit status only
            sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
        for stream in (sys.stdout, sys.stderr):  # what they cannot encode is spelled out rather than raised
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # click would end with 1, which means findings
            click.echo("anydevice: interrupted; every file is either as it was or fixed", err=True)
            raise click.exceptions.Exit(_INTERRUPTED) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        verb = args[0]
        if verb not in VERBS and not verb.startswith("-"):
            from anydevice.cli.options import Stop

            close = difflib.get_close_matches(verb, VERBS, n=1)
            if close:
                hint = f"did you mean '{close[0]}'?"
            elif os.path.lexists(verb):  # which, unlike Path.exists, takes any text
                hint = f"to look into this path, run 'anydevice scan {verb}'"
            else:
                hint = "'anydevice --help' lists them"
            raise Stop(f"no command is called '{verb}'; {hint}")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"anydevice.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.command(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="anydevice %(version)s")
def command() -> None:
    """Make PyTorch code run on any device.

    Exit status: 0 nothing (left) to do, 1 findings (left), 2 something asked for could not be done.
    """
