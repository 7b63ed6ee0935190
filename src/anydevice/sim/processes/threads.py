"""New threads are in the world too: PyTorch keeps its dispatch modes per thread."""

from __future__ import annotations

import threading
from typing import Any

from anydevice.sim.dispatch import Dispatcher
from anydevice.sim.patches import Patches
from anydevice.sim.simulation import Simulation


class _ThreadDispatcher(Dispatcher):
    """Steps aside when the simulation ends before its thread does."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if not self.simulation.active:
            return func(*args, **(kwargs or {}))
        return super().__torch_dispatch__(func, types, args, kwargs)


def install(patches: Patches, simulation: Simulation) -> None:
    """Enter the world at the start of each thread."""
    start = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def bootstrap(self: threading.Thread) -> Any:
        with _ThreadDispatcher(simulation):
            return start(self)

    patches.set(threading.Thread, "_bootstrap_inner", bootstrap)
