"""A forked child may not use an accelerator that its parent has used."""

from __future__ import annotations

import os

import torch

from anydevice.sim.patches import Patches
from anydevice.sim.simulation import Simulation, active


def install(patches: Patches, simulation: Simulation) -> None:
    """Let `_is_in_bad_fork` of the back end answer."""
    for kind in ("cuda", "xpu", "mps"):
        module = getattr(torch, kind)
        if hasattr(module, "_is_in_bad_fork"):
            mine = simulation.world.device_type == kind
            patches.set(module, "_is_in_bad_fork", lambda mine=mine: mine and simulation.forked)


def _after_fork() -> None:
    simulation = active()
    if simulation is not None and simulation.initialised:
        simulation.forked = True


os.register_at_fork(after_in_child=_after_fork)
