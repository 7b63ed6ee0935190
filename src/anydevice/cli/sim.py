"""`anydevice sim`: run a program as if on another machine."""

from __future__ import annotations

from pathlib import Path

import click

from anydevice.cli.options import Stop
from anydevice.worlds import World


@click.command("sim", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--as", "world", required=True, metavar="WORLD", help="The machine: none, cuda, cuda:2, rocm, mps, xpu.")
@click.option("--memory", metavar="SIZE", help="Memory of each of its devices: 8GB, 512MiB.")
@click.option(
    "--report",
    "reports",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what crosses between host and devices to this .html or .json file.",
)
@click.option("--bus", metavar="SPEED", help="Bytes per second between host and device, for the report: 25GB.")
@click.option(
    "--expect",
    type=click.Choice(["cpu"]),
    help="Name each line that puts a tensor on a device, and end with 1 if there are any.",
)
@click.option("-m", "module", is_flag=True, help="The program is a module, as for 'python -m'.")
@click.option("-c", "code", is_flag=True, help="The program is the argument itself, as for 'python -c'.")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    world: str,
    memory: str | None,
    reports: tuple[Path, ...],
    bus: str | None,
    expect: str | None,
    module: bool,
    code: bool,
    program: str,
    arguments: tuple[str, ...],
) -> None:
    """Run PROGRAM with its ARGUMENTS as if on another machine, with real numbers, on the CPU of this one.

    PROGRAM is a Python script, '-' for standard input, or a command (torchrun, pytest, bash). What would fail on the
    other machine fails here, on the same line. Its child processes are on that machine too. The exit status is that of
    the program.
    """
    machine = _machine(world)
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise Stop(f"PyTorch cannot be imported: {error}; install it with: pip install 'anydevice[torch]'") from None
    from anydevice.sim import launch
    from anydevice.sim.launch.ending import Wishes

    if memory is not None:
        if machine.device_type is None:
            raise Stop(f"'--memory {memory}': the world '{machine}' has no devices that could have it")
        machine = machine.with_memory(_size(memory))
    speed = None if bus is None else float(_size(bus.removesuffix("/s")))
    _check_reports(reports)
    if module and code:
        raise Stop("give -m or -c, not both")
    if module or code:
        found = launch.Program("module" if module else "code", program, arguments)
    else:
        try:
            found = launch.find(program, arguments)
        except FileNotFoundError as error:
            raise Stop(str(error)) from None
        except OSError as error:
            raise Stop(f"cannot run '{program}': {error.strerror}") from None
    launch.run(found, machine, Wishes(reports, speed, expect))


def _machine(world: str) -> World:
    from anydevice.worlds import parse

    try:
        return parse(world)
    except ValueError as error:
        raise Stop(str(error)) from None


def _size(text: str) -> int:
    from anydevice.sim.traffic.amounts import parse_size

    try:
        return parse_size(text)
    except ValueError as error:
        raise Stop(str(error)) from None


def _check_reports(reports: tuple[Path, ...]) -> None:
    from anydevice.sim import traffic

    for report in reports:
        if report.suffix not in traffic.FORMATS:
            raise Stop(f"'--report {report}': the name must end in {' or '.join(traffic.FORMATS)}")
        if not report.absolute().parent.is_dir():
            raise Stop(f"'--report {report}': there is no folder '{report.parent}'")
