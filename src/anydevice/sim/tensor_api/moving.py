"""Moving a tensor to another device: `.to`, `.cuda`, `.cpu` and their like, with gradients that come back."""

from __future__ import annotations

from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.asked import asking
from anydevice.sim.place import CPU, device_of
from anydevice.sim.simulation import Simulation, current

_base_to = torch._C.TensorBase.to
_base_parse_to = torch._C._nn._parse_to


def install(patches: Patches, simulation: Simulation) -> None:
    """Replace the methods that move."""
    patches.set(torch._C._nn, "_parse_to", _parse_to)
    patches.set(torch.Tensor, "to", to)
    patches.set(torch.Tensor, "cpu", cpu)
    for kind in ("cuda", "xpu"):
        patches.set(torch.Tensor, kind, _to_kind(kind))


def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """`torch.Tensor.to`."""
    if (args and isinstance(args[0], torch.Tensor)) or "other" in kwargs:
        other = kwargs.pop("other", None)
        if other is None:
            other, args = args[0], args[1:]
        args = (device_of(other), other.dtype, *args)
    copy = bool(kwargs.pop("copy", False))
    if len(args) == 4 or (len(args) == 3 and not isinstance(args[1], torch.dtype)):
        copy, args = bool(args[-1]), args[:-1]
    device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
    target = device_of(self) if device is None else current().resolve(device)
    return move(self, target, dtype, non_blocking=non_blocking, memory_format=memory_format, copy=copy)


def _parse_to(*args: Any, **kwargs: Any) -> Any:
    """`torch._C._nn._parse_to`, which asks this build's own accelerator what device a number is."""
    if args and args[0].__class__ is int:
        args = (current().resolve(args[0]), *args[1:])
    elif kwargs.get("device").__class__ is int:
        kwargs["device"] = current().resolve(kwargs["device"])
    return _base_parse_to(*args, **kwargs)


def cpu(self: torch.Tensor, memory_format: torch.memory_format = torch.preserve_format) -> torch.Tensor:
    """`torch.Tensor.cpu`."""
    return move(self, CPU, memory_format=memory_format)


def _to_kind(kind: str) -> Any:
    def method(
        self: torch.Tensor,
        device: Any = None,
        non_blocking: bool = False,
        memory_format: torch.memory_format = torch.preserve_format,
    ) -> torch.Tensor:
        target = current().resolve(kind if device is None else device)
        return move(self, target, non_blocking=non_blocking, memory_format=memory_format)

    method.__name__ = kind
    return method


def move(
    tensor: torch.Tensor,
    target: torch.device,
    dtype: torch.dtype | None = None,
    *,
    non_blocking: bool = False,
    memory_format: torch.memory_format | None = None,
    copy: bool = False,
) -> torch.Tensor:
    """`tensor` itself where it is as asked already, else a copy whose gradient flows back."""
    options = {} if memory_format is None else {"memory_format": memory_format}
    if target == device_of(tensor) or target.type == "meta":
        if target.type == "meta":
            return _base_to(tensor, target, dtype or tensor.dtype, copy=copy, **options)
        return _base_to(tensor, dtype or tensor.dtype, copy=copy, **options)
    if tensor.requires_grad and torch.is_grad_enabled():
        if tensor.is_nested and tensor.layout is torch.strided:  # autograd takes no Python function of these
            parts = [move(part, target, dtype, non_blocking=non_blocking) for part in tensor.unbind()]
            return torch.ops.aten._nested_tensor_from_tensor_list.default(parts)
        moved: torch.Tensor = ToCopy.apply(tensor, target, dtype, non_blocking, memory_format)
        return moved
    return _relocate(tensor, target, dtype, non_blocking, memory_format)


def _relocate(
    tensor: torch.Tensor,
    target: torch.device,
    dtype: torch.dtype | None,
    non_blocking: bool,
    memory_format: torch.memory_format | None,
) -> torch.Tensor:
    with asking():
        moved: torch.Tensor = torch.ops.aten._to_copy.default(
            tensor, device=target, dtype=dtype, non_blocking=non_blocking, memory_format=memory_format
        )
    return moved


class ToCopy(torch.autograd.Function):
    """Autograd's own formula would leave the gradient where it arises: below it, all tensors are on the CPU."""

    generate_vmap_rule = True

    @staticmethod
    def forward(  # type: ignore[override]
        tensor: torch.Tensor,
        target: torch.device,
        dtype: torch.dtype | None,
        non_blocking: bool,
        memory_format: torch.memory_format | None,
    ) -> torch.Tensor:
        return _relocate(tensor, target, dtype, non_blocking, memory_format)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        tensor, ctx.target, ctx.target_dtype, ctx.non_blocking, _ = inputs
        ctx.source = device_of(tensor)
        ctx.dtype = tensor.dtype

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        back = move(gradient, ctx.source, ctx.dtype, non_blocking=ctx.non_blocking)
        return back, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, *rest: None) -> torch.Tensor:  # type: ignore[override]
        return move(tangent, ctx.target, ctx.target_dtype, non_blocking=ctx.non_blocking)
