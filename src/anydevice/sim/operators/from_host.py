"""Tensors made from Python numbers or from NumPy arrays: they begin on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydevice.sim.dispatch import general
from anydevice.sim.operators.registry import operator

if TYPE_CHECKING:
    from anydevice.sim.plan import Plan
    from anydevice.sim.simulation import Simulation


@operator("aten::lift_fresh")
def lift_fresh(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `torch.tensor` and `torch.from_numpy` end with (torch/csrc/utils/tensor_new.cpp)."""
    out = general(sim, plan, args, kwargs)
    if sim.observers:
        sim.created(out)
    return out
