"""Tensor subclasses that wrap other tensors (jagged nested tensors, DTensor, a user's own): where they say they are.

Such a tensor has no data, but it takes part in autograd, which looks below the simulation: there it has to be on the
CPU, as all tensors are.
"""

from __future__ import annotations

from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.place import Place, storage_of
from anydevice.sim.simulation import Simulation, current

_make = torch._C.TensorBase._make_wrapper_subclass
_parameters = ("strides", "storage_offset", "memory_format", "dtype", "layout", "device")  # after class and size


def install(patches: Patches, simulation: Simulation) -> None:
    """Replace what makes them."""
    patches.set(torch.Tensor, "_make_wrapper_subclass", staticmethod(make_wrapper_subclass))


def make_wrapper_subclass(cls: type, size: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
    """`torch.Tensor._make_wrapper_subclass`."""
    given = {**dict(zip(_parameters, args, strict=False)), **kwargs}
    device = given.get("device")
    home = None if device is None else current().resolve(device)
    if home is None or home.type in ("cpu", "meta"):
        return _make(cls, size, *args, **kwargs)
    position = _parameters.index("device")
    if len(args) > position:
        args = (*args[:position], torch.device("cpu"), *args[position + 1 :])
    else:
        kwargs["device"] = torch.device("cpu")
    made: torch.Tensor = _make(cls, size, *args, **kwargs)
    with torch._C.DisableTorchFunctionSubclass():
        storage_of(made).place = Place(home, None, 0)  # type: ignore[attr-defined]
    return made
