"""`torch.device`, which alone cannot be told what `torch.device(1)` means: C++ asks the build for its accelerator."""

from __future__ import annotations

from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.patching.stand_in import StandIn
from anydevice.sim.simulation import Simulation, current

_Device = torch.device


class _DeviceType(StandIn):
    """Makes real devices."""

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.device:
        index = args[0] if args else kwargs.get("index") if "type" not in kwargs else None
        if isinstance(index, int) and not isinstance(index, bool) and len(args) + len(kwargs) == 1:
            return _Device(current().world.device_type or "cpu", index)
        return _Device(*args, **kwargs)


def install(patches: Patches, simulation: Simulation) -> None:
    """Replace `torch.device` where there are devices; without them PyTorch itself says so."""
    if simulation.devices:
        patches.set(torch, "device", _DeviceType(_Device))
