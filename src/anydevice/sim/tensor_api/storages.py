"""Storages: where they are, copies of them, and what torch.save and pickle make of that."""

from __future__ import annotations

from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.place import CPU, Place
from anydevice.sim.simulation import Simulation, current

_Storage = torch.UntypedStorage
_base_device = torch._C.StorageBase.device.__get__  # type: ignore[attr-defined]


def install(patches: Patches, simulation: Simulation) -> None:
    """Let a storage say where it is, and let its copies be where they belong."""
    patches.set(_Storage, "device", property(device))
    patches.set(_Storage, "clone", clone)
    patches.set(_Storage, "to", to)
    patches.set(_Storage, "cuda", cuda)
    patches.set(_Storage, "is_pinned", is_pinned)


def device(self: torch.UntypedStorage) -> torch.device:
    """Where the storage is."""
    place = self.place  # type: ignore[attr-defined]
    known: torch.device = _base_device(self) if place is None else place.device
    return known


def _copy(storage: torch.UntypedStorage, target: torch.device) -> torch.UntypedStorage:
    made = torch.UntypedStorage(storage.nbytes()).copy_(storage, False)
    made.place = Place(target, current().ledgers.get(target), made.nbytes())
    return made


def clone(self: torch.UntypedStorage) -> torch.UntypedStorage:
    """A copy on the same device; `copy.deepcopy` makes it too."""
    return _copy(self, self.device)


def to(self: torch.UntypedStorage, *, device: Any, non_blocking: bool = False) -> torch.UntypedStorage:
    """The storage itself where it is there already, else a copy."""
    target = current().resolve(device)
    return self if target == self.device else _copy(self, target)


def cuda(self: torch.UntypedStorage, device: Any = None, non_blocking: bool = False) -> torch.UntypedStorage:
    """A copy on a CUDA device."""
    return to(self, device="cuda" if device is None else device)


def is_pinned(self: torch.UntypedStorage, device: Any = None) -> bool:
    """Is it in pinned memory of the host?"""
    place = self.place  # type: ignore[attr-defined]
    return place is not None and place.device == CPU and place.pinned
