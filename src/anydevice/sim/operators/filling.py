"""Operators that put one value, given as a tensor without dimensions, into many places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydevice.sim import mismatch
from anydevice.sim.dispatch import claim
from anydevice.sim.operators.registry import operator

if TYPE_CHECKING:
    from anydevice.sim.plan import Plan
    from anydevice.sim.simulation import Simulation


@operator("aten::fill.Tensor", "aten::fill_.Tensor", "aten::index_fill.int_Tensor", "aten::index_fill_.int_Tensor")
def fill(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The value may be on any device (ATen/native/Fill.cpp; `index_fill_` reads it by `item()`)."""
    given = mismatch.settle(sim, list(mismatch.operands(plan, args, kwargs)))
    home = mismatch.agree(sim, plan, [operand for operand in given if operand.name != "value"])
    out = plan.func(*args, **kwargs)
    claim(sim, home, out)
    return out


@operator("aten::masked_fill", "aten::masked_fill_")
def masked_fill(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The value may be on the CPU; the mask may not, not even without dimensions (ATen/native/cuda/Indexing.cu)."""
    given = mismatch.settle(sim, list(mismatch.operands(plan, args, kwargs)))
    target, mask = given[:2]
    for operand in given[2:]:
        if operand.device.type != "cpu" and target.device.type == "cpu":
            raise mismatch.annotate(RuntimeError("masked_fill_: Expected inputs to be on same device"), given)
    if mask.device != target.device and "meta" not in (mask.device.type, target.device.type):
        raise mismatch.annotate(
            RuntimeError(
                f"expected self and mask to be on the same device, but got mask on {mask.device} and self on {target.device}"
            ),
            given,
        )
    out = plan.func(*args, **kwargs)
    claim(sim, target.device, out)
    return out


@operator("aten::where.self", "aten::where.self_out")
def where(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Any number of CPU scalars: they are moved (ATen/native/TensorCompare.cpp, `where_self_out`)."""
    given = mismatch.settle(sim, list(mismatch.operands(plan, args, kwargs)))
    home = mismatch.agree(sim, plan, given, many_scalars=True)
    out = plan.func(*args, **kwargs)
    claim(sim, home, out)
    return out
