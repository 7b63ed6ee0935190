"""What is said when a program has ended: the traffic report, and which lines used a device that was not to be used.

Child processes take part. They write reports of their own, and leave their lines in a folder of the process that began.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import multiprocessing.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from anydevice.sim.launch.expecting import Expectation

if TYPE_CHECKING:
    from anydevice.sim.simulation import Simulation
    from anydevice.sim.traffic import Recorder

VARIABLE = "ANYDEVICE_SIM_WISHES"


@dataclass(frozen=True)
class Wishes:
    """What the user wants to be told.

    Attributes:
        reports: files for the traffic report.
        bus: bytes per second between host and device, for the estimate in it.
        expect: the device that the program is expected to stay on (`cpu`).
        folder: where children leave the lines that did otherwise.
    """

    reports: tuple[Path, ...] = ()
    bus: float | None = None
    expect: str | None = None
    folder: Path | None = None

    def variables(self) -> dict[str, str]:
        """The same, for the environment of children."""
        reports = [str(path.absolute()) for path in self.reports]
        folder = str(self.folder) if self.folder else None
        return {VARIABLE: json.dumps({"reports": reports, "bus": self.bus, "expect": self.expect, "folder": folder})}


def begin(simulation: Simulation, wishes: Wishes) -> Expectation:
    """Watch the simulation from now on, and those of children; the reports are written at the end of the process."""
    if wishes.expect:
        folder = tempfile.TemporaryDirectory(prefix="anydevice-")
        wishes = replace(wishes, folder=Path(folder.name))
    expectation = Expectation(wishes.expect, wishes.folder)
    if wishes.expect:
        expectation.keep = folder
        expectation.watch(simulation)
    os.environ.update(wishes.variables())
    if wishes.reports:
        _record(simulation, wishes, {path: path for path in wishes.reports})
    return expectation


def begin_in_child(simulation: Simulation) -> None:
    """The same in a process that has inherited the world."""
    text = os.environ.get(VARIABLE)
    if text is None:
        return
    values = json.loads(text)
    wishes = Wishes(
        tuple(map(Path, values["reports"])),
        values["bus"],
        values["expect"],
        Path(values["folder"]) if values["folder"] else None,
    )
    rank = os.environ.get("RANK")
    mark = f"pid{os.getpid()}" if rank is None else f"rank{rank}"
    if wishes.reports:
        _record(simulation, wishes, {path: path.with_suffix(f".{mark}{path.suffix}") for path in wishes.reports})
    if wishes.expect:
        expectation = Expectation(wishes.expect, wishes.folder)
        expectation.watch(simulation)
        _at_exit(expectation.leave)


@contextmanager
def gathering(wishes: Wishes) -> Iterator[tuple[dict[str, str], Expectation]]:
    """For a program that is all children: what they must find in their environment, and what they have left."""
    with contextlib.ExitStack() as stack:
        if wishes.expect:
            wishes = replace(wishes, folder=Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="anydevice-"))))
        yield wishes.variables(), Expectation(wishes.expect, wishes.folder)


def _record(simulation: Simulation, wishes: Wishes, paths: dict[Path, Path]) -> None:
    from anydevice.sim import traffic

    recorder = traffic.Recorder()
    recorder.start(simulation)
    main = all(wish == path for wish, path in paths.items())

    def finish() -> None:
        if main or recorder.events:
            _write(recorder, str(simulation.world), wishes, list(paths.values()))

    _at_exit(finish)


def _write(recorder: Recorder, world: str, wishes: Wishes, paths: list[Path]) -> None:
    from anydevice.sim import traffic

    summary = traffic.summarise(recorder, world, wishes.bus or traffic.DEFAULT_BUS)
    for path in paths:
        try:
            traffic.write(summary, path)
        except OSError as error:
            print(f"anydevice: cannot write the report '{path}': {error.strerror}", file=sys.stderr)
        else:
            print(f"anydevice: traffic report in {path}", file=sys.stderr)


def _at_exit(action: Callable[[], None]) -> None:
    """Run `action` once at the end of this process, and not of those that it forks.

    Children of `multiprocessing` leave without what `atexit` keeps, but not without what its own finalizers do.
    """
    process = os.getpid()
    done: list[bool] = []

    def once() -> None:
        if os.getpid() == process and not done:
            done.append(True)
            action()

    atexit.register(once)  # registered before the program's own, so that it runs after them
    multiprocessing.util.Finalize(None, _if_child, args=(once,), exitpriority=0)


def _if_child(once: Callable[[], None]) -> None:
    if multiprocessing.process.parent_process() is not None:
        once()
