"""New threads are in the world too: PyTorch keeps its dispatch modes per thread."""

from __future__ import annotations

import threading
from typing import Any

from anydevice.patching.patches import Patches
from anydevice.sim.dispatch import Dispatcher
from anydevice.sim.simulation import Simulation, active


class _ThreadDispatcher(Dispatcher):
    """Follows the worlds that come and go while its thread runs: one may end, or another begin inside of it."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        now = active()
        if now is None or not now.active:
            return func(*args, **(kwargs or {}))
        if now is not self.simulation:
            self.simulation = now
        return super().__torch_dispatch__(func, types, args, kwargs)


def install(patches: Patches, simulation: Simulation) -> None:
    """Enter the world at the start of each thread."""
    start = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def bootstrap(self: threading.Thread) -> Any:
        with _ThreadDispatcher(simulation):
            return start(self)

    patches.set(threading.Thread, "_bootstrap_inner", bootstrap)
