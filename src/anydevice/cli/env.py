"""`anydevice env`: plan environments, judge their files, and write a container. The work is in `anydevice.doctor`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from anydevice.cli.options import Stop, because

if TYPE_CHECKING:
    from anydevice.doctor.plan.target import Target

_JSON = click.option("--json", "as_json", is_flag=True, help="Answer for programs.")


@click.group("env")
def command() -> None:
    """Plan, check and write environments of PyTorch.

    Exit status: 0 all well, 1 problems or nothing that would run, 2 something asked for could not be done.
    """


@command.command("plan")
@click.option("--torch", metavar="VERSION", help="Only this torch: 2.14, 2.14.1 or '>=2.9,<2.13'.")
@click.option("--gpu", default="auto", show_default=True, metavar="BUILD", help="auto, cu126, cuda, rocm, xpu, cpu ...")
@click.option("--driver", metavar="VERSION", help="NVIDIA's driver, as nvidia-smi shows it; 'none' for no GPU.")
@click.option("--capability", metavar="X.Y", help="Compute capability of the oldest GPU, or an AMD name like gfx1100.")
@click.option("--python", metavar="VERSION", help="Python of the environment; by default the one that runs this.")
@click.option("--os", "system", type=click.Choice(["linux", "windows", "macos"]), help="By default this one.")
@click.option("--arch", type=click.Choice(["x86_64", "aarch64", "arm64"]), help="Processor; by default this one.")
@click.option("--glibc", metavar="VERSION", help="glibc of the machine.")
@click.option("--same-torch", is_flag=True, help="One release for both environments.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="Write the files there.")
@_JSON
def plan(
    torch: str | None,
    gpu: str,
    driver: str | None,
    capability: str | None,
    python: str | None,
    system: str | None,
    arch: str | None,
    glibc: str | None,
    same_torch: bool,
    output: Path | None,
    as_json: bool,
) -> None:
    """The newest CPU and accelerator environments that will run, and why newer ones will not.

    What is not said is looked up on this machine, or left unknown where --os names another.
    """
    from anydevice.doctor.plan.as_object import as_object
    from anydevice.doctor.plan.plan import make_plan
    from anydevice.doctor.plan.shown import render
    from anydevice.doctor.plan.target import TargetError
    from anydevice.doctor.plan.writing import files

    try:
        target = _target(driver, capability, python, system, arch, glibc)
        made = make_plan(target, gpu.strip().lower(), torch, same_torch=same_torch)
    except TargetError as error:
        raise Stop(str(error)) from None
    written = _write(output, files(made)) if output is not None else []
    if as_json:
        click.echo(json.dumps(as_object(made), indent=2))
    else:
        click.echo(render(made, with_files=output is None), nl=False)
        for path in written:
            click.echo(f"wrote {path}")
    wanted = made.accelerator if made.accelerator is not None else made.cpu
    raise SystemExit(0 if wanted.choice is not None and made.cpu.choice is not None else 1)


@command.command("check")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option(
    "--variant", metavar="BUILD", help="What the files are meant for: cpu, cu126 ...; by default their names."
)
@click.option("--python", metavar="VERSION", help="The Python that will install them.")
@_JSON
def check(paths: tuple[Path, ...], variant: str | None, python: str | None, as_json: bool) -> None:
    """Judge requirements.txt, pyproject.toml, uv.lock, poetry.lock and environment.yml.

    Exit status: 0 nothing wrong, 1 problems, 2 a file could not be read.
    """
    from anydevice.doctor.lockcheck.check import check_files
    from anydevice.doctor.lockcheck.shown import as_object, render
    from anydevice.doctor.plan.target import TargetError

    try:
        report = check_files(paths, variant=variant, python=python)
    except TargetError as error:
        raise Stop(str(error)) from None
    if as_json:
        click.echo(json.dumps(as_object(report), indent=2))
    else:
        click.echo(render(report), nl=False)
    for line in report.errors:
        click.echo(f"anydevice: {line}", err=True)
    raise SystemExit(2 if report.errors else 1 if report.has_problems else 0)


@command.command("dockerfile")
@click.option("--variant", required=True, metavar="BUILD", help="cpu, cuda, rocm, or one build: cu126 ...")
@click.option("--torch", metavar="VERSION", help="Only this torch.")
@click.option("--python", default="3.12", show_default=True, metavar="VERSION", help="Python in the image.")
@click.option("--driver", metavar="VERSION", help="The oldest NVIDIA driver that the image must run on.")
@click.option("--capability", metavar="X.Y", help="Compute capability of the oldest GPU, or an AMD name like gfx1100.")
@click.option("--arch", type=click.Choice(["x86_64", "aarch64"]), default="x86_64", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="Write the files there.")
@click.option("--compose", is_flag=True, help="Also a compose.yaml.")
@_JSON
def dockerfile(
    variant: str,
    torch: str | None,
    python: str,
    driver: str | None,
    capability: str | None,
    arch: str,
    output: Path | None,
    compose: bool,
    as_json: bool,
) -> None:
    """A Dockerfile for one build, with what it copies.

    Without --output the Dockerfile alone is printed.
    """
    from anydevice.doctor.container.image import BASE_GLIBC, make_image
    from anydevice.doctor.plan.target import TargetError

    try:
        target = _described(driver, capability, _blank("linux", arch, python))
        image = make_image(replace(target, glibc=BASE_GLIBC), variant.strip().lower(), torch)
    except TargetError as error:
        raise Stop(str(error)) from None
    contents = image.files(compose=compose)
    if output is not None:
        for path in _write(output, contents):
            click.echo(f"wrote {path}", err=as_json)
    if as_json:
        click.echo(json.dumps({"version": 1, "variant": image.choice.variant, "files": contents}, indent=2))
    elif output is None:
        click.echo(contents["Dockerfile"], nl=False)
        others = [name for name in contents if name != "Dockerfile"]
        click.echo(f"anydevice: it copies {', '.join(others)}; --output DIR writes them all", err=True)


def _target(
    driver: str | None,
    capability: str | None,
    python: str | None,
    system: str | None,
    arch: str | None,
    glibc: str | None,
) -> Target:
    """This machine with what was said put over it; another system is only what was said."""
    from anydevice.doctor.plan.here import this_machine
    from anydevice.doctor.plan.target import numbers, python_version

    here = this_machine()
    python = python_version(python) if python is not None else here.python
    if (system or here.system) != here.system or (arch or here.arch) != here.arch:
        here = _blank(system or here.system, arch, python)
    here = _described(driver, capability, replace(here, python=python))
    return here if glibc is None else replace(here, glibc=numbers(glibc, "version of glibc"))


def _blank(system: str, arch: str | None, python: str) -> Target:
    from anydevice.doctor.plan.target import Target, python_version

    usual = {"macos": "arm64"}.get(system, "x86_64")
    arch = {"macos": {"aarch64": "arm64"}}.get(system, {"arm64": "aarch64"}).get(arch or usual, arch or usual)
    return Target(system, arch, python_version(python))


def _described(driver: str | None, capability: str | None, target: Target) -> Target:
    """The target with the GPU that was described; a described GPU is another than the one seen here."""
    from anydevice.doctor.plan.target import compute_capability, gfx_name, numbers

    if driver is None and capability is None:
        return target
    target = replace(target, gfx=None, xpu=False, capability=None)
    if driver is not None:
        target = replace(target, driver=None if driver == "none" else numbers(driver, "driver version"))
    if capability is not None:
        gfx = gfx_name(capability)
        if gfx is not None:
            return replace(target, gfx=gfx, driver=None)
        return replace(target, capability=compute_capability(capability))
    return target


def _write(folder: Path, contents: Mapping[str, str]) -> list[Path]:
    """Write files that are not there yet; nothing at all where one is there and differs."""
    for name, text in contents.items():
        if (folder / name).is_file() and (folder / name).read_bytes() != text.encode():
            raise Stop(f"'{folder / name}' is there already; name another folder, or remove it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in contents.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise Stop(f"cannot write to '{folder}': {because(error)}") from None
    return [folder / name for name in contents]
