"""`anydevice demo`: the whole way on a small legacy project, from finding to training on the device at hand."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from anydevice.cli.options import Stop, because

_PROJECT = Path(__file__).parent / "demo_project"
_PACKAGES = Path(__file__).resolve().parents[2]  # the folder from which `anydevice` was imported


@click.command("demo")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Make the project here and keep it.")
def command(keep: Path | None) -> None:
    """Make a small CUDA-only project, scan it, show the diff, fix it, and train it on this machine's device."""
    if keep is not None:
        _make(keep)
    with tempfile.TemporaryDirectory(prefix="anydevice-demo-") as temporary:
        folder = keep if keep is not None else Path(temporary)
        for file in _PROJECT.glob("*.py.txt"):  # as text, since no Python of today can compile them
            shutil.copyfile(file, folder / file.name.removesuffix(".txt"))
        sys.exit(_show(folder))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise Stop(f"'{folder}' is not empty; name a new folder")
    except OSError as error:
        raise Stop(f"cannot make '{folder}': {because(error)}") from None


def _show(folder: Path) -> int:
    """Run the steps in `folder`; the exit status is that of the training, or 0 where torch is not installed."""
    _heading("1. A project that needs CUDA: anydevice scan")
    _anydevice(folder, "scan")
    _heading("2. What would change: anydevice fix --diff")
    _anydevice(folder, "fix", "--diff")
    _heading("3. Change it: anydevice fix")
    _anydevice(folder, "fix")
    _heading("4. Train it here: python train.py")
    if importlib.util.find_spec("torch") is None:
        click.echo("torch is not installed, so the last step is left out; pip install 'anydevice[torch]' brings it.")
        return 0
    done = subprocess.run([sys.executable, "-W", "ignore", "train.py"], cwd=folder, check=False)
    return done.returncode


def _heading(line: str) -> None:
    click.echo(click.style(f"\n=== {line}\n", bold=True))
    sys.stdout.flush()


def _anydevice(folder: Path, *arguments: str) -> None:
    """Run this very anydevice, wherever it is, in `folder`; ends the demo where that fails."""
    path = os.pathsep.join([str(_PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "anydevice", *arguments, "--no-cache"]
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, check=False)
    if done.returncode not in (0, 1):  # 1: there were findings, as there should be
        sys.exit(done.returncode)
