"""Storages: where they are, copies of them, and what torch.save and pickle make of that."""

from __future__ import annotations

from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.place import CPU, Place
from anydevice.sim.simulation import Simulation, current

_Storage = torch.UntypedStorage
_base_device = torch._C.StorageBase.device.__get__  # type: ignore[attr-defined]
_base_new, _base_resize, _base_copy = (getattr(torch._C.StorageBase, name) for name in ("__new__", "resize_", "copy_"))
_base_is_shared = torch._C.StorageBase.is_shared


def install(patches: Patches, simulation: Simulation) -> None:
    """Let a storage say where it is, and let its copies be where they belong."""
    patches.set(_Storage, "__new__", new)
    patches.set(_Storage, "device", property(device))
    patches.set(_Storage, "is_cuda", property(lambda self: device(self).type == "cuda"))
    patches.set(_Storage, "get_device", get_device)
    patches.set(_Storage, "resize_", resize_)
    patches.set(_Storage, "clone", clone)
    patches.set(_Storage, "copy_", copy_)
    patches.set(_Storage, "to", to)
    patches.set(_Storage, "cpu", lambda self: to(self, device="cpu"))
    patches.set(_Storage, "cuda", cuda)
    patches.set(_Storage, "is_pinned", is_pinned)
    patches.set(_Storage, "is_shared", is_shared)


def device(self: torch.UntypedStorage) -> torch.device:
    """Where the storage is."""
    place = self.place  # type: ignore[attr-defined]
    known: torch.device = _base_device(self) if place is None else place.device
    return known


def get_device(self: torch.UntypedStorage) -> int:
    """The index of the device, -1 for the CPU."""
    index = device(self).index
    return -1 if index is None else index


def new(cls: type, *args: Any, device: Any = None, **kwargs: Any) -> torch.UntypedStorage:
    """`torch.UntypedStorage(...)`, on any device of the world."""
    target = CPU if device is None else current().resolve(device)
    if target.type in ("cpu", "meta"):
        return _base_new(cls, *args, device=target, **kwargs)
    made: torch.UntypedStorage = _base_new(cls, *args, device=CPU, **kwargs)
    _put(made, target)
    return made


def resize_(self: torch.UntypedStorage, size: int) -> torch.UntypedStorage:
    """Grow or shrink, which on a device is a new allocation; FSDP frees what it has gathered so."""
    resized: torch.UntypedStorage = _base_resize(self, size)
    place = self.place  # type: ignore[attr-defined]
    if place is not None and place.ledger is not None:
        _put(self, place.device)
    return resized


def _put(storage: torch.UntypedStorage, target: torch.device) -> None:
    storage.place = Place(target, current().ledgers.get(target), storage.nbytes())  # type: ignore[attr-defined]


def _copy(storage: torch.UntypedStorage, target: torch.device) -> torch.UntypedStorage:
    return new(torch.UntypedStorage, storage.nbytes(), device=target).copy_(storage)


def copy_(self: torch.UntypedStorage, source: Any, non_blocking: bool = False) -> torch.UntypedStorage:
    """Copy what is in `source`; both stay where they are, though to C++ they are in one place."""
    places = [(storage, storage.place) for storage in (self, source) if isinstance(storage, torch.UntypedStorage)]  # type: ignore[attr-defined]
    copied: torch.UntypedStorage = _base_copy(self, source, non_blocking)
    for storage, place in places:
        storage.place = place  # type: ignore[attr-defined]
    return copied


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


def is_shared(self: torch.UntypedStorage) -> bool:
    """Can other processes have it? What is on a CUDA device always can be."""
    return device(self).type == "cuda" or _base_is_shared(self)
