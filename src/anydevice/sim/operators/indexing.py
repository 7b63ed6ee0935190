"""Operators that look up elements by index: a tensor of an accelerator may be indexed from the CPU, and not the reverse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydevice.sim import mismatch
from anydevice.sim.dispatch import claim
from anydevice.sim.mismatch import Operand
from anydevice.sim.operators.registry import operator
from anydevice.sim.place import CPU

if TYPE_CHECKING:
    import torch

    from anydevice.sim.plan import Plan
    from anydevice.sim.simulation import Simulation


@operator(
    "aten::index", "aten::_unsafe_index", "aten::_unsafe_masked_index",
    "aten::index_put", "aten::index_put_", "aten::_unsafe_index_put", "aten::_index_put_impl", "aten::_index_put_impl_",
    "aten::_unsafe_masked_index_put_accumulate",
)  # fmt: skip
def by_tensors(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Indices may be on the CPU; values must be with the tensor, or be one number (ATen/native/TensorAdvancedIndexing.cpp)."""
    given = mismatch.settle(sim, list(mismatch.operands(plan, args, kwargs)))
    target = given[0].device
    for operand in given[1:]:
        if operand.device == target or operand.device.type == "meta":
            continue
        if operand.name == "indices":
            if operand.device.type != "cpu":
                raise mismatch.annotate(
                    RuntimeError(
                        f"indices should be either on {CPU} or on the same device as the indexed tensor ({target})"
                    ),
                    given,
                )
        elif not (operand.name == "values" and operand.tensor.dim() == 0):
            raise mismatch.error([*given[:1], operand], _first_accelerator(given))
    if "accumulate" in plan.names and _accumulates(plan, args, kwargs) and target.type == "cuda":
        _refuse_stray_values(given, target)
    if any(o.name == "indices" and not o.tensor.dtype.is_signed for o in given):  # a mask: the host asks for its size
        sim.synchronised(target, "mask", 8)
    out = plan.func(*args, **kwargs)
    claim(sim, target, out)
    return out


def _first_accelerator(given: list[Operand]) -> torch.device:
    return next((o.device for o in given if o.device.type != "cpu"), CPU)


def _accumulates(plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    position = plan.names.index("accumulate")
    return bool(args[position] if len(args) > position else kwargs.get("accumulate", False))


def _refuse_stray_values(given: list[Operand], target: torch.device) -> None:
    """Sums are made by sorting on the device: not even a CPU scalar may be added so."""
    for operand in given:
        if operand.name == "values" and operand.device != target:
            raise mismatch.annotate(
                RuntimeError(f"expected device {target} but got device {operand.device} for value tensor"), given
            )
