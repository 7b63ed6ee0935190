"""Where a tensor is: a tag on its storage, which every view of it shares and which dies with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType
from typing import TYPE_CHECKING

import torch

from anydevice.patching.origin import Line, line_of, user_frame

if TYPE_CHECKING:
    from anydevice.sim.memory import Ledger

CPU = torch.device("cpu")
_ORDINARY = frozenset({torch.Tensor, torch.nn.Parameter})
storage_of = torch._C.TensorBase.untyped_storage
base_device = torch._C.TensorBase.device.__get__  # type: ignore[attr-defined]

# one object per device, so that the dispatcher may compare with `is`
_interned: dict[tuple[str, int], torch.device] = {}


def interned(kind: str, index: int) -> torch.device:
    """The one `torch.device` object that the simulator uses for this device."""
    device = _interned.get((kind, index))
    if device is None:
        device = _interned[kind, index] = torch.device(kind, index)
    return device


class Place:
    """Puts a storage on a device. It is held by the storage alone, so that its end is the end of the memory."""

    __slots__ = ("code", "device", "instruction", "ledger", "nbytes", "pinned")

    def __init__(self, device: torch.device, ledger: Ledger | None, nbytes: int, *, pinned: bool = False) -> None:
        self.device = device
        self.ledger = None  # so that __del__ finds it where allocation fails
        self.nbytes = nbytes
        self.pinned = pinned
        frame = user_frame(sys._getframe(2))
        self.code: CodeType | None
        if frame is None:
            self.code, self.instruction = None, 0
        else:
            self.code, self.instruction = frame.f_code, frame.f_lasti
        if ledger is not None:
            ledger.allocate(nbytes)
            self.ledger = ledger

    def __del__(self) -> None:
        if self.ledger is not None:
            self.ledger.free(self.nbytes)

    @property
    def line(self) -> Line | None:
        """The line of the user's program that made or moved the tensor here."""
        return None if self.code is None else line_of(self.code, self.instruction)


def place_of(tensor: torch.Tensor) -> Place | None:
    """The tag of the tensor's storage; None for an ordinary CPU or meta tensor."""
    try:
        if type(tensor) in _ORDINARY:
            return storage_of(tensor).place  # type: ignore[attr-defined, no-any-return]
        with torch._C.DisableTorchFunctionSubclass():  # whose overrides are not asked what PyTorch would not ask them
            return storage_of(tensor).place  # type: ignore[attr-defined, no-any-return]
    except (NotImplementedError, AttributeError):
        inner = _part(tensor)
        return None if inner is None else place_of(inner)


def device_of(tensor: torch.Tensor) -> torch.device:
    """The device that the tensor is on in the simulated world."""
    place = place_of(tensor)
    if place is None:
        if type(tensor) in _ORDINARY:
            return base_device(tensor)
        local = getattr(tensor, "_local_tensor", None)  # of a DTensor
        if local is not None:
            return device_of(local)
        with torch._C.DisableTorchFunctionSubclass():
            return base_device(tensor)
    return place.device


def _part(tensor: torch.Tensor) -> torch.Tensor | None:
    """A tensor that has a storage and lies where `tensor`, which has none of its own, lies."""
    functorch = torch._C._functorch
    if functorch.is_functorch_wrapped_tensor(tensor):
        return functorch.get_unwrapped(tensor)
    with torch._C.DisableTorchFunctionSubclass():
        parts = list(parts_of(tensor))
    return parts[-1] if parts else None


def parts_of(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors that a sparse tensor is made of."""
    if tensor.layout is torch.sparse_coo:
        yield from (tensor._indices(), tensor._values())
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        yield from (tensor.crow_indices(), tensor.col_indices(), tensor.values())
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        yield from (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
