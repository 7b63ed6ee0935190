"""What a tensor says of the device that it is on."""

from __future__ import annotations

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.place import device_of
from anydevice.sim.simulation import Simulation


def install(patches: Patches, simulation: Simulation) -> None:
    """Let `device`, `is_cuda`, `get_device()` and their like answer from the tensor's place."""
    patches.set(torch.Tensor, "device", property(device_of))
    for kind in ("cuda", "xpu", "mps", "cpu"):
        patches.set(torch.Tensor, f"is_{kind}", property(lambda self, kind=kind: device_of(self).type == kind))
    patches.set(torch.Tensor, "get_device", get_device)


def get_device(self: torch.Tensor) -> int:
    """The index of the device, -1 for the CPU."""
    device = device_of(self)
    return -1 if device.index is None else device.index
