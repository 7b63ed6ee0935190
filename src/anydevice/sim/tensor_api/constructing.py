"""Functions that make tensors of Python data, and look at the device in C++ before any operator runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.mismatch import put
from anydevice.sim.place import CPU, device_of, storage_of
from anydevice.sim.simulation import Simulation, current
from anydevice.sim.tensor_api.moving import move

_tensor, _as_tensor, _asarray = torch.tensor, torch.as_tensor, torch.asarray
_new = torch._C.TensorBase.new
_nested_tensor, _nested_from_list = torch._C._nested.nested_tensor, torch._nested_tensor_from_tensor_list
# how many tensors of indices come before the values
_SPARSE = {
    "sparse_coo_tensor": 1,
    "sparse_compressed_tensor": 2,
    "sparse_csr_tensor": 2,
    "sparse_csc_tensor": 2,
    "sparse_bsr_tensor": 2,
    "sparse_bsc_tensor": 2,
}


def install(patches: Patches, simulation: Simulation) -> None:
    """Replace them by functions that make the tensor on the CPU, then move it."""
    patches.everywhere(torch, "tensor", tensor)
    patches.everywhere(torch, "as_tensor", as_tensor)
    patches.everywhere(torch, "asarray", asarray)
    patches.set(torch.Tensor, "new", new)
    patches.set(torch.Tensor, "new_tensor", new_tensor)
    patches.set(torch._C._nested, "nested_tensor", nested_tensor)
    patches.everywhere(torch, "_nested_tensor_from_tensor_list", nested_tensor_from_list)
    for name, count in _SPARSE.items():
        patches.everywhere(torch, name, _sparse(getattr(torch, name), count))


def _home(data: Any, device: Any) -> torch.device:
    """Where the result shall be: as asked, by the default that was set, with a tensor that it is made of."""
    if device is not None:
        return current().resolve(device)
    default = _default_device()
    if default is not None:
        return current().resolve(default)
    return device_of(data) if isinstance(data, torch.Tensor) else CPU


def _default_device() -> torch.device | None:
    """The device of `with torch.device(...)` or `set_default_device`, if either is on."""
    for mode in reversed(torch.overrides._get_current_function_mode_stack()):
        if isinstance(mode, torch.utils._device.DeviceContext):
            device: torch.device = mode.device
            return device
    return None


def _land(made: torch.Tensor, home: torch.device, *, requires_grad: bool) -> torch.Tensor:
    if home.type == "meta":
        return made.to("meta").requires_grad_(requires_grad)
    if home != device_of(made):
        if current().observers:
            storage_of(made).fresh = False  # type: ignore[attr-defined]  # there is no other way to make it
        made = move(made, home)
    return made.requires_grad_(requires_grad) if requires_grad else made


def tensor(
    data: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    **more: Any,
) -> torch.Tensor:
    """`torch.tensor`."""
    home = _home(data, device)
    if isinstance(data, torch.Tensor):
        made = data.detach().clone() if dtype is None else data.detach().to(dtype, copy=True)
    else:
        made = _tensor(data, dtype=dtype, device=CPU, **more)
    made = _land(made, home, requires_grad=requires_grad)
    return made.pin_memory() if pin_memory else made


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> torch.Tensor:
    """`torch.as_tensor`."""
    home = _home(data, device)
    made = data if isinstance(data, torch.Tensor) else _as_tensor(data, dtype=dtype, device=CPU)
    return move(made, home, dtype)


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> torch.Tensor:
    """`torch.asarray`."""
    home = _home(obj, device)
    if isinstance(obj, torch.Tensor):
        if copy is False and home != device_of(obj):
            raise ValueError(f"can't alias tensor from device '{device_of(obj)}' to '{home}'.")
        made = move(obj, home, dtype, copy=bool(copy))
        return made if requires_grad == made.requires_grad else made.detach().requires_grad_(requires_grad)
    made = _asarray(obj, dtype=dtype, device=CPU, copy=copy if home.type == "cpu" else None)
    return _land(made, home, requires_grad=requires_grad)


def new(self: torch.Tensor, *args: Any, device: Any = None) -> torch.Tensor:
    """`torch.Tensor.new`."""
    home = device_of(self) if device is None else current().resolve(device)
    made = _new(self, *args)
    return made if home == device_of(made) and home.type == "cpu" else _placed(made, home)


def _placed(made: torch.Tensor, home: torch.device) -> torch.Tensor:
    put(current(), made, home)
    return made


def new_tensor(
    self: torch.Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **more: Any
) -> torch.Tensor:
    """`torch.Tensor.new_tensor`."""
    home = device_of(self) if device is None else device
    return tensor(data, dtype=dtype or self.dtype, device=home, requires_grad=requires_grad, **more)


def nested_tensor(
    data: list[Any], *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> torch.Tensor:
    """`torch.nested.nested_tensor` of the strided layout."""
    home = _home(data[0] if data else None, device)
    parts = [part if isinstance(part, torch.Tensor) else tensor(part, dtype=dtype, device=home) for part in data]
    made = _land(_nested_tensor(parts, dtype=dtype), home, requires_grad=requires_grad)
    return made.pin_memory() if pin_memory else made


def nested_tensor_from_list(
    parts: list[torch.Tensor], dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> torch.Tensor:
    """`torch._nested_tensor_from_tensor_list`, for `torch.nested.as_nested_tensor`: gradients flow to the parts."""
    home = _home(parts[0] if parts else None, device)
    return move(_nested_from_list(parts, dtype, layout, None, pin_memory), home)


@functools.cache
def _sparse(original: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Indices and values go to the device first; what is made of them is there."""

    @functools.wraps(original)
    def make(*args: Any, device: Any = None, dtype: Any = None, **kwargs: Any) -> Any:
        if len(args) <= count:
            return original(*args, device=device, dtype=dtype, **kwargs)
        values = args[count]
        home = _home(values, device)
        if home.type in ("cpu", "meta") and not isinstance(values, torch.Tensor):
            return original(*args, device=home, dtype=dtype, **kwargs)
        indices = [as_tensor(item, device=home) for item in args[:count]]
        return original(
            *indices, as_tensor(values, dtype=dtype, device=home), *args[count + 1 :], dtype=dtype, **kwargs
        )

    return make
