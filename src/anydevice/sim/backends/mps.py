"""`torch.mps` and `torch.backends.mps`."""

from __future__ import annotations

from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.backends.memory import ledger, set_fraction
from anydevice.sim.errors import refusing
from anydevice.sim.simulation import Simulation


def install(patches: Patches, simulation: Simulation) -> None:
    """Let them answer for the Mac's GPU, or that there is none."""
    here = simulation.world.device_type == "mps"
    patches.everywhere(torch.backends.mps, "is_available", lambda: here)
    patches.everywhere(torch.backends.mps, "is_built", lambda: here)
    if hasattr(torch.mps, "is_available"):
        patches.set(torch.mps, "is_available", lambda: here)
    patches.set(torch.mps, "device_count", lambda: int(here))
    if not here:
        return
    newest = dict.fromkeys(("is_macos_or_newer", "is_macos13_or_newer"), lambda *version: True)
    patches.known(torch.backends.mps, newest)
    answers: dict[str, Any] = {
        "synchronize": lambda: simulation.synchronised(simulation.devices[0], "synchronize"),
        "empty_cache": lambda: ledger().empty_cache(),
        "current_allocated_memory": lambda: ledger().allocated,
        "driver_allocated_memory": lambda: ledger().reserved,
        "recommended_max_memory": lambda: int(simulation.world.memory * 0.67),  # what Metal recommends of 16 GB
        "set_per_process_memory_fraction": set_fraction,
        "compile_shader": refusing("torch.mps.compile_shader"),
        "load_metallib": refusing("torch.mps.load_metallib"),
    }
    patches.known(torch.mps, answers)
