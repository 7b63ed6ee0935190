"""Tensors sent to other processes: those on a device are shared there, as CUDA's handles let processes share them."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from anydevice.patching.patches import Patches
from anydevice.sim.place import Place, place_of, storage_of
from anydevice.sim.simulation import Simulation, current

_reduce_tensor = reductions.reduce_tensor
_new_shared = torch.UntypedStorage._new_shared


def install(patches: Patches, simulation: Simulation) -> None:
    """Replace what `multiprocessing` does with tensors."""
    reducers: dict[Any, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
    for kind, reduce in list(reducers.items()):
        if reduce is _reduce_tensor:
            patches.item(reducers, kind, reduce_tensor)
    patches.set(torch.Tensor, "share_memory_", _share_unless_on_device(torch.Tensor.share_memory_))
    patches.set(torch.Tensor, "is_shared", _shared_if_on_device(torch.Tensor.is_shared))
    patches.set(torch.UntypedStorage, "_new_shared", classmethod(new_shared))


def new_shared(kind: type[torch.UntypedStorage], size: int, *, device: Any = "cpu") -> torch.UntypedStorage:
    """`torch.UntypedStorage._new_shared`, in which `default_collate` lays out a batch; a device's memory is shared anyhow."""
    home = current().resolve(device)
    if home.type == "cpu":
        return _new_shared(size, device=device)
    storage = kind(size)
    storage.place = Place(home, current().ledgers.get(home), size)  # type: ignore[attr-defined]
    return storage


def reduce_tensor(tensor: torch.Tensor) -> Any:
    """How to make the tensor anew in another process, of the same memory."""
    place = place_of(tensor)
    if place is None or place.device.type == "cpu":
        return _reduce_tensor(tensor)
    try:
        storage = storage_of(tensor)
    except NotImplementedError:  # the parts of a sparse tensor come here on their own
        return _reduce_tensor(tensor)
    if current().forked:
        raise current().bad_fork()
    storage.place = None  # type: ignore[attr-defined]  # for the moment it is what it is, memory of the host
    try:
        _, (kind, typed, metadata) = _reduce_tensor(tensor)
        shared = reductions.reduce_storage(typed._untyped_storage)
    finally:
        storage.place = place  # type: ignore[attr-defined]
    return rebuild_tensor, (str(place.device), kind, shared, typed.dtype, metadata)


def rebuild_tensor(
    device: str, kind: type, shared: tuple[Callable[..., Any], tuple[Any, ...]], dtype: torch.dtype, metadata: Any
) -> Any:
    """The tensor in the process that gets it. Its memory is on the account of the one that sent it."""
    home = current().resolve(device)
    rebuild, arguments = shared
    storage = rebuild(*arguments)
    typed = torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)
    tensor = reductions.rebuild_tensor(kind, typed, metadata)
    storage_of(tensor).place = Place(home, None, storage.nbytes())  # type: ignore[attr-defined]
    return tensor


def _share_unless_on_device(share: Any) -> Any:
    def share_memory_(self: torch.Tensor) -> torch.Tensor:
        place = place_of(self)
        return self if place is not None and place.device.type != "cpu" else share(self)

    return share_memory_


def _shared_if_on_device(is_shared: Any) -> Any:
    def shared(self: torch.Tensor) -> bool:
        place = place_of(self)
        return bool(place is not None and place.device.type == "cuda") or bool(is_shared(self))

    return shared
