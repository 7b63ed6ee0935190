"""Types that name a device: `torch.cuda.FloatTensor`, `tensor.type()`, `torch.set_default_tensor_type`."""

from __future__ import annotations

from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.place import CPU, device_of
from anydevice.sim.simulation import Simulation, current
from anydevice.sim.tensor_api.moving import move

_base_type = torch._C.TensorBase.type
_set_default = torch.set_default_tensor_type
_DTYPES = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "ShortTensor": torch.int16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "BoolTensor": torch.bool,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_CPU_CLASSES = {name: getattr(torch, name) for name in _DTYPES}


class _Typed(type):
    """The type of a class like `torch.cuda.FloatTensor`: it makes tensors, and knows them."""

    kind: str
    dtype: torch.dtype

    def __call__(cls, *args: Any, device: Any = None) -> torch.Tensor:
        sources = [arg for arg in args if isinstance(arg, torch.Tensor)]
        for source in sources:
            if not isinstance(source, cls):
                raise TypeError(f"expected {_name(cls.kind, cls.dtype)} (got {type_of(source)})")
        made = _CPU_CLASSES[cls.__name__](*args)
        return move(made, CPU if cls.kind == "cpu" else current().resolve(cls.kind if device is None else device))

    def __instancecheck__(cls, instance: object) -> bool:
        return (
            isinstance(instance, torch.Tensor)
            and instance.dtype == cls.dtype
            and device_of(instance).type == cls.kind
            and not instance.is_sparse
        )

    @property
    def is_cuda(cls) -> bool:
        """Is it a type of CUDA tensors?"""
        return cls.kind == "cuda"


def _typed(kind: str, name: str) -> _Typed:
    module = "torch" if kind == "cpu" else f"torch.{kind}"
    fields = {"kind": kind, "dtype": _DTYPES[name], "layout": torch.strided, "__module__": module}
    return _Typed(name, (), fields)


_CLASSES = {kind: {name: _typed(kind, name) for name in _DTYPES} for kind in ("cpu", "cuda", "xpu")}


def install(patches: Patches, simulation: Simulation) -> None:
    """Replace the types, and what takes or gives them."""
    patches.set(torch.Tensor, "type", type_)
    kind = simulation.world.device_type
    if kind is None:
        return
    for name, known in _CLASSES["cpu"].items():
        patches.everywhere(torch, name, known)
    if kind in _CLASSES:
        for name, known in _CLASSES[kind].items():
            patches.set(getattr(torch, kind), name, known)
    dtype, context = torch.get_default_dtype(), getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    patches.everywhere(torch, "set_default_tensor_type", set_default_tensor_type)

    def restore() -> None:
        torch.set_default_dtype(dtype)
        torch.set_default_device(None if context is None else context.device)

    patches.afterwards(restore)


def _name(kind: str, dtype: torch.dtype) -> str:
    return f"torch.{'' if kind == 'cpu' else kind + '.'}{_NAMES[dtype]}"


def type_of(tensor: torch.Tensor) -> str:
    """What `tensor.type()` says."""
    text: str = _base_type(tensor)  # type: ignore[assignment]
    kind = device_of(tensor).type
    return text if kind in ("cpu", "meta") else text.replace("torch.", f"torch.{kind}.", 1)


def _meaning(wanted: Any) -> tuple[str, torch.dtype] | None:
    """(kind of device, dtype) of a typed tensor class or its name."""
    if isinstance(wanted, _Typed):
        return wanted.kind, wanted.dtype
    if isinstance(wanted, str):
        module, _, name = wanted.rpartition(".")
        if name in _DTYPES and module.startswith("torch"):
            return module.removeprefix("torch").removeprefix(".") or "cpu", _DTYPES[name]
    return None


def type_(self: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """`torch.Tensor.type`."""
    if dtype is None:
        return type_of(self)
    meaning = _meaning(dtype)
    if meaning is None:
        return move(self, device_of(self), dtype) if isinstance(dtype, torch.dtype) else _base_type(self, dtype)
    kind, wanted = meaning
    here = device_of(self)
    return move(self, here if here.type == kind else current().resolve(kind), wanted, non_blocking=non_blocking)


def set_default_tensor_type(t: Any) -> None:
    """`torch.set_default_tensor_type`: a dtype and a device in one."""
    meaning = _meaning(t)
    if meaning is None:
        _set_default(t)
        return
    kind, dtype = meaning
    if not dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    current().resolve(kind)
    torch.set_default_dtype(dtype)
    torch.set_default_device(None if kind == "cpu" else kind)
