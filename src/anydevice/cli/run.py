"""`anydevice run`: run a program written for CUDA on the device that is there."""

from __future__ import annotations

from pathlib import Path

import click

from anydevice.cli.options import Stop


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--device", default="auto", metavar="KIND", help="Where CUDA goes: auto, cpu, mps, xpu, cuda.")
@click.option("--log", type=click.Path(path_type=Path, dir_okay=False), help="Write what was redirected to this .json.")
@click.option("-m", "module", is_flag=True, help="The program is a module, as for 'python -m'.")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(device: str, log: Path | None, module: bool, program: str, arguments: tuple[str, ...]) -> None:
    """Run PROGRAM with its ARGUMENTS, unedited, with all that it asks of CUDA sent to the device that is there.

    PROGRAM is a Python script, '-' for standard input, or a command (torchrun, bash). Its child processes are
    redirected too. At the end stderr says what was changed or made up, by line. The exit status is that of the program.
    """
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise Stop(f"PyTorch cannot be imported: {error}; install it with: pip install 'anydevice[torch]'") from None
    from anydevice.launch.program import Program, find
    from anydevice.redirect import redirection, running

    if log is not None and not log.absolute().parent.is_dir():
        raise Stop(f"'--log {log}': there is no folder '{log.parent}'")
    try:
        kind = redirection.choose(device)
        found = Program("module", program, arguments) if module else find(program, arguments)
    except (ValueError, FileNotFoundError) as error:
        raise Stop(str(error)) from None
    except OSError as error:
        raise Stop(f"cannot run '{program}': {error.strerror}") from None
    running.run(found, kind, None if log is None else log.absolute())
