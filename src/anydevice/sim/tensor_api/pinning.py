"""Pinned memory: on the host, and known to the device."""

from __future__ import annotations

from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.place import CPU, Place, device_of, place_of, storage_of
from anydevice.sim.simulation import Simulation
from anydevice.sim.tensor_api.typed import type_of


def install(patches: Patches, simulation: Simulation) -> None:
    """Let tensors be pinned where there is a device to pin them for; without one PyTorch itself has the right error."""
    if simulation.devices:
        patches.set(torch.Tensor, "pin_memory", pin_memory)
        patches.set(torch.Tensor, "is_pinned", is_pinned)


def is_pinned(self: torch.Tensor, device: Any = None) -> bool:
    """`torch.Tensor.is_pinned`."""
    place = place_of(self)
    return place is not None and place.pinned


def pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
    """`torch.Tensor.pin_memory`: a copy in pinned memory."""
    if device_of(self).type != "cpu":
        raise RuntimeError(f"cannot pin '{type_of(self)}' only dense CPU tensors can be pinned")
    if is_pinned(self):
        return self
    pinned = self.clone()
    storage = storage_of(pinned)
    storage.place = Place(CPU, None, storage.nbytes(), pinned=True)  # type: ignore[attr-defined]
    return pinned
