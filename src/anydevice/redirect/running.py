"""Runs the program with CUDA redirected, says what was done, and ends as the program does."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from anydevice.launch import tracebacks
from anydevice.launch.commands import status_of_command
from anydevice.launch.executing import end, status_of
from anydevice.launch.program import Program
from anydevice.redirect import children
from anydevice.redirect.redirection import Redirection


def run(program: Program, kind: str, log: Path | None) -> NoReturn:
    """Run the program to its end, and end with its status.

    Args:
        program: what to run.
        kind: the kind of device that `cuda` is sent to; nothing is redirected where it is `cuda`.
        log: where to write the log as JSON; it is printed to stderr in any case.
    """
    if kind == "cuda":
        end(status_of_command(program, os.environ) if program.kind == "command" else status_of(program))
    if program.kind == "command":
        end(status_of_command(program, {**os.environ, **children.inherited(kind, os.environ)}))
    redirection = Redirection(kind)
    redirection.install()
    children.keep(redirection)
    tracebacks.hide_ours()
    status = status_of(program)
    tell(redirection, log)
    end(status)


def tell(redirection: Redirection, log: Path | None) -> None:
    """Print the log to stderr, and write it where a file is given."""
    text = redirection.log.text(redirection.kind)
    if text:
        sys.stdout.flush()
        print(text, file=sys.stderr)
    if log is not None:
        try:
            redirection.log.write(log, redirection.kind)
        except OSError as error:
            print(f"anydevice: cannot write the log '{log}': {error.strerror}", file=sys.stderr)
