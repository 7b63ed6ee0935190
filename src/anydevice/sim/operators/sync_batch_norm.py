"""The kernels of `nn.SyncBatchNorm`, which PyTorch has for CUDA only (ATen/native/cuda/Normalization.cu)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from anydevice.sim import mismatch
from anydevice.sim.dispatch import claim
from anydevice.sim.operators.registry import operator

if TYPE_CHECKING:
    from anydevice.sim.plan import Plan
    from anydevice.sim.simulation import Simulation

Tensor = torch.Tensor


def stats(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Mean, and inverse of the standard deviation, of each channel."""
    variance, mean = torch.var_mean(_wide(x), dim=_others(x), correction=0)
    return mean, torch.rsqrt(variance + eps)


def gather_stats_with_counts(
    x: Tensor,
    means: Tensor,
    inverses: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """Both, of all processes together, from those of each."""
    weights = counts.to(means.dtype).view(-1, 1)
    total = weights.sum()
    mean = (weights * means).sum(0) / total
    squares = inverses.pow(-2) - eps + means.square()
    variance = (weights * squares.where(weights > 0, 0)).sum(0) / total - mean.square()
    if running_mean is not None:
        running_mean.lerp_(mean.to(running_mean.dtype), momentum)
    if running_var is not None:
        running_var.lerp_((variance * total / (total - 1)).to(running_var.dtype), momentum)
    return mean, torch.rsqrt(variance + eps)


def gather_stats(
    x: Tensor,
    means: Tensor,
    inverses: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    count: int,
) -> tuple[Tensor, Tensor]:
    """The same, where each process has seen as much."""
    counts = torch.full((len(means),), count)
    return gather_stats_with_counts(x, means, inverses, running_mean, running_var, momentum, eps, counts)


def elemt(x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, inverse: Tensor, eps: float) -> Tensor:
    """The normalised tensor."""
    out = (_wide(x) - _along(mean, x)) * _along(inverse, x)
    if weight is not None:
        out = out * _along(weight, x)
    if bias is not None:
        out = out + _along(bias, x)
    return out.to(x.dtype)


def backward_reduce(
    gradient: Tensor,
    x: Tensor,
    mean: Tensor,
    inverse: Tensor,
    weight: Tensor | None,
    for_input: bool,
    for_weight: bool,
    for_bias: bool,
) -> tuple[Tensor | None, ...]:
    """What the processes must add up for the gradients."""
    wide = _wide(gradient)
    total = wide.sum(_others(x))
    along = (wide * (_wide(x) - _along(mean, x))).sum(_others(x))
    dtype = total.dtype if weight is None else weight.dtype
    return (
        total if for_input else None,
        along if for_input else None,
        (along * inverse).to(dtype) if for_weight else None,
        total.to(dtype) if for_bias else None,
    )


def backward_elemt(
    gradient: Tensor,
    x: Tensor,
    mean: Tensor,
    inverse: Tensor,
    weight: Tensor | None,
    total: Tensor,
    along: Tensor,
    count: Tensor,
) -> Tensor:
    """The gradient of the input."""
    number = count.sum()
    centred = (_wide(x) - _along(mean, x)) * _along(inverse.square() * along / number, x)
    out = (_wide(gradient) - _along(total / number, x) - centred) * _along(inverse, x)
    if weight is not None:
        out = out * _along(weight, x)
    return out.to(gradient.dtype)


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _others(x: Tensor) -> list[int]:
    return [dim for dim in range(x.dim()) if dim != 1]


def _along(channels: Tensor, x: Tensor) -> Tensor:
    return channels.to(_wide(x).dtype).view(1, -1, *(1 for _ in range(x.dim() - 2)))


_KERNELS: dict[str, Callable[..., Any]] = {
    f"aten::batch_norm_{kernel.__name__}": kernel
    for kernel in (stats, gather_stats, gather_stats_with_counts, elemt, backward_reduce, backward_elemt)
}


@operator(*_KERNELS)
def synchronised(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The kernel, where the device has it."""
    home = mismatch.common_device(sim, plan, args, kwargs)
    if home.type == "cpu":
        return plan.func(*args, **kwargs)
    given = [{**dict(zip(plan.names, args, strict=False)), **kwargs}[name] for name in plan.names]
    out = _KERNELS[plan.func._schema.name](*given)
    claim(sim, home, out)
    return out
