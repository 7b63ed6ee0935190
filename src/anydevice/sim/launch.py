"""Runs a program in a simulated world as `python` would: its own arguments, `__main__`, output, traceback and status."""

from __future__ import annotations

import atexit
import os
import runpy
import shutil
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from anydevice.sim import simulation
from anydevice.worlds import World

_OURS = str(Path(__file__).parents[1]) + os.sep
_INTERRUPTED = 128 + 2  # what shells say of a program that Ctrl-C (signal 2) has ended


@dataclass(frozen=True)
class Program:
    """What to run.

    Attributes:
        kind: `script`, `module` (`-m`) or `code` (`-c`).
        name: the path, the module, or the source.
        arguments: what the program finds in `sys.argv[1:]`.
    """

    kind: str
    name: str
    arguments: tuple[str, ...] = ()


def find_script(name: str) -> Path:
    """The script that `name` means: a file, a folder with a `__main__.py`, or a command that is a Python script.

    Raises:
        FileNotFoundError: there is none.
    """
    path = Path(name)
    if path.is_file() or (path / "__main__.py").is_file():
        return path
    command = None if os.sep in name or path.exists() else shutil.which(name)
    if command is not None:
        with Path(command).open("rb") as file:
            if b"python" in file.readline(1000):
                return Path(command)
        raise FileNotFoundError(
            f"'{name}' is a command, but not a Python script; only Python programs can be simulated"
        )
    what = "a folder without __main__.py" if path.is_dir() else "not found"
    raise FileNotFoundError(f"cannot run '{name}': {what}")


def run(program: Program, world: World, reports: Sequence[Path] = (), *, bus: float | None = None) -> NoReturn:
    """Run the program to its end, and end with its status.

    Args:
        program: what to run.
        world: the machine to simulate.
        reports: files that get the traffic report, whether the program ends well or not.
        bus: bytes per second between host and device, for the estimate in the report.
    """
    simulated = simulation.enter(world)
    if reports:
        _record(simulated, reports, bus)
    try:
        _execute(program)
    except KeyboardInterrupt as error:
        _show(error)
        sys.exit(_INTERRUPTED)
    except Exception as error:
        _show(error)
        sys.exit(1)
    sys.exit(0)


def _record(simulated: simulation.Simulation, reports: Sequence[Path], bus: float | None) -> None:
    from anydevice.sim import traffic

    recorder = traffic.Recorder()
    recorder.start(simulated)
    process = os.getpid()

    def finish() -> None:  # registered before the program's own, so that it runs after them
        if os.getpid() != process:
            return
        recorder.stop(simulated)
        summary = traffic.summarise(recorder, str(simulated.world), bus or traffic.DEFAULT_BUS)
        for path in reports:
            try:
                traffic.write(summary, path)
            except OSError as error:
                print(f"anydevice: cannot write the report '{path}': {error.strerror}", file=sys.stderr)
            else:
                print(f"anydevice: traffic report in {path}", file=sys.stderr)

    atexit.register(finish)


def _execute(program: Program) -> None:
    if program.kind == "module":
        sys.argv[:] = [program.name, *program.arguments]
        sys.path.insert(0, str(Path.cwd()))
        runpy._run_module_as_main(program.name)  # type: ignore[attr-defined]  # what `python -m` calls
        return
    sys.argv[:] = [program.name if program.kind == "script" else "-c", *program.arguments]
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=__builtins__, __annotations__={})
    sys.modules["__main__"] = main
    if program.kind == "code":
        sys.path.insert(0, "")
        exec(compile(program.name, "<string>", "exec"), main.__dict__)
        return
    path = Path(program.name)
    if path.is_dir():
        runpy.run_path(str(path), run_name="__main__")
        return
    main.__file__ = program.name
    sys.path.insert(0, str(path.resolve().parent))
    exec(compile(path.read_bytes(), program.name, "exec"), main.__dict__)


def _show(error: BaseException) -> None:
    """Report an uncaught exception as Python does, without the frames of anydevice."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        link.__traceback__ = _theirs(link.__traceback__)
        link = link.__cause__ or link.__context__
    sys.excepthook(type(error), error, error.__traceback__)


def _theirs(frames: types.TracebackType | None) -> types.TracebackType | None:
    kept = []
    started = False
    while frames is not None:
        path = frames.tb_frame.f_code.co_filename
        started = started or not (path.startswith(_OURS) or path == "<frozen runpy>")
        if started and not path.startswith(_OURS):
            kept.append(frames)
        frames = frames.tb_next
    chain: types.TracebackType | None = None
    for frame in reversed(kept):
        chain = types.TracebackType(chain, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return chain


__all__ = ["Program", "find_script", "run"]
