"""What hands a tensor's data to the host: refused where the accelerator refuses, reported where it makes the host wait."""

from __future__ import annotations

from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.errors import NotSimulated
from anydevice.sim.place import device_of
from anydevice.sim.simulation import Simulation, current

_base_numpy = torch._C.TensorBase.numpy
_base_tolist = torch._C.TensorBase.tolist
_base_interface = torch.Tensor.__cuda_array_interface__.fget  # type: ignore[attr-defined]


def install(patches: Patches, simulation: Simulation) -> None:
    """Replace the methods that hand out data without an operator."""
    patches.set(torch.Tensor, "numpy", numpy)
    patches.set(torch.Tensor, "tolist", tolist)
    patches.set(torch.Tensor, "__dlpack__", _unless_on_device("__dlpack__"))
    patches.set(torch.Tensor, "__cuda_array_interface__", property(cuda_array_interface))


def numpy(self: torch.Tensor, *, force: bool = False) -> Any:
    """`torch.Tensor.numpy`."""
    device = device_of(self)
    if device.type == "cpu":
        return _base_numpy(self, force=force)
    if not force:
        raise TypeError(
            f"can't convert {device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )
    return _base_numpy(self.detach().cpu().resolve_conj().resolve_neg())


def tolist(self: torch.Tensor) -> Any:
    """`torch.Tensor.tolist`."""
    current().synchronised(device_of(self), "tolist", self.numel() * self.element_size())
    return _base_tolist(self)


def cuda_array_interface(self: torch.Tensor) -> Any:
    """`torch.Tensor.__cuda_array_interface__`: an address that no other library could read."""
    if device_of(self).type == "cuda":
        raise NotSimulated("Tensor.__cuda_array_interface__")
    return _base_interface(self)


def _unless_on_device(name: str) -> Any:
    original = getattr(torch.Tensor, name)

    def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if device_of(self).type not in ("cpu", "meta"):
            raise NotSimulated(f"Tensor.{name} of a tensor on {device_of(self)}", "move it to the CPU first")
        return original(self, *args, **kwargs)

    return method
