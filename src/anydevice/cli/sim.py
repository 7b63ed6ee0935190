"""`anydevice sim`: run a program as if on another machine."""

from __future__ import annotations

from pathlib import Path

import click

from anydevice.cli.options import Stop


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
@click.option("-m", "module", is_flag=True, help="The program is a module, as for 'python -m'.")
@click.option("-c", "code", is_flag=True, help="The program is the argument itself, as for 'python -c'.")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    world: str,
    memory: str | None,
    reports: tuple[Path, ...],
    bus: str | None,
    module: bool,
    code: bool,
    program: str,
    arguments: tuple[str, ...],
) -> None:
    """Run PROGRAM with its ARGUMENTS as if on another machine, with real numbers, on the CPU of this one.

    PROGRAM is a Python script, or a command that is one (torchrun, pytest). What would fail on the other machine fails
    here, on the same line. The exit status is that of the program.
    """
    from anydevice.worlds import parse

    try:
        machine = parse(world)
    except ValueError as error:
        raise Stop(str(error)) from None
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise Stop(f"PyTorch cannot be imported: {error}; install it with: pip install 'anydevice[torch]'") from None
    from anydevice.sim import launch, traffic
    from anydevice.sim.traffic.amounts import parse_size

    try:
        if memory is not None:
            machine = machine.with_memory(parse_size(memory))
        speed = None if bus is None else float(parse_size(bus.removesuffix("/s")))
    except ValueError as error:
        raise Stop(str(error)) from None
    for report in reports:
        if report.suffix not in traffic.FORMATS:
            raise Stop(f"'--report {report}': the name must end in {' or '.join(traffic.FORMATS)}")
    if module and code:
        raise Stop("give -m or -c, not both")
    if not (module or code):
        try:
            program = str(launch.find_script(program))
        except OSError as error:
            raise Stop(str(error)) from None
    kind = "module" if module else "code" if code else "script"
    launch.run(launch.Program(kind, program, arguments), machine, reports, bus=speed)
