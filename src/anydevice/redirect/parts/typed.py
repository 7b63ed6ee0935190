"""Types that name CUDA: `torch.cuda.FloatTensor`, `tensor.type(...)`, `torch.set_default_tensor_type`."""

from __future__ import annotations

from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.redirect import who_asks
from anydevice.redirect.redirection import Redirection

_type = torch.Tensor.type
_set_default = torch.set_default_tensor_type


class _Typed(type):
    """Makes tensors of one dtype on the device that is there, and knows them."""

    redirection: Redirection
    twin: Any  # the class of the CPU

    @property
    def dtype(cls) -> torch.dtype:
        """Of its tensors."""
        return cls.twin.dtype

    is_cuda = True
    is_sparse = False
    layout = torch.strided

    def __call__(cls, *args: Any, device: Any = None) -> torch.Tensor:
        where = cls.redirection.send("cuda" if device is None else device, f"torch.cuda.{cls.__name__}")
        args = tuple(arg.cpu() if isinstance(arg, torch.Tensor) else arg for arg in args)
        return cls.twin(*args).to(where)

    def __instancecheck__(cls, instance: object) -> bool:
        return (
            isinstance(instance, torch.Tensor)
            and instance.dtype == cls.dtype
            and instance.device.type == cls.redirection.kind
        )


def install(patches: Patches, redirection: Redirection) -> None:
    """Replace the types, and what takes or gives them."""
    types: dict[str, _Typed] = {}
    for name in list(vars(torch.cuda)):
        twin = getattr(torch, name, None)
        if name.endswith("Tensor") and hasattr(twin, "dtype"):
            made = _Typed(name, (), {"__module__": "torch.cuda"})
            made.redirection, made.twin = redirection, twin
            types[f"torch.cuda.{name}"] = made
            patches.everywhere(torch.cuda, name, made)
    names = {made.dtype: name for name, made in types.items()}

    def type_(self: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        if dtype is None:
            told = self.device.type == redirection.kind and not self.is_sparse and who_asks.library() is None
            if told and self.dtype in names:
                return redirection.faked("Tensor.type", names[self.dtype])
            return _type(self)
        made = dtype if isinstance(dtype, _Typed) else types.get(dtype) if isinstance(dtype, str) else None
        if made is None:
            return _type(self, dtype, non_blocking, **kwargs)
        where = redirection.send("cuda", "Tensor.type")
        return self.to(where, made.dtype, non_blocking=non_blocking)

    def set_default_tensor_type(t: Any) -> None:
        made = t if isinstance(t, _Typed) else types.get(t) if isinstance(t, str) else None
        if made is None:
            _set_default(t)
            return
        _set_default(made.twin)
        if redirection.kind != "cpu":
            torch.set_default_device(redirection.device())
        redirection.send("cuda", "set_default_tensor_type")

    patches.set(torch.Tensor, "type", type_)
    patches.everywhere(torch, "set_default_tensor_type", set_default_tensor_type)
