"""`torch.cuda`."""

from __future__ import annotations

import torch

from anydevice.sim.patches import Patches
from anydevice.sim.simulation import Simulation


def install(patches: Patches, simulation: Simulation) -> None:
    """Let `torch.cuda` answer for the simulated devices."""
    here = simulation.world.device_type == "cuda"

    def lazy_init() -> None:
        if not here:
            raise simulation.not_built("cuda")

    patches.set(torch.cuda, "_lazy_init", lazy_init)
    patches.set(torch.cuda, "is_available", lambda: here)
    patches.set(torch.cuda, "device_count", lambda: len(simulation.devices) if here else 0)
    patches.set(torch.cuda, "current_device", lambda: simulation.current_index)
