"""Layouts that only the CPU has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydevice.sim.dispatch import general
from anydevice.sim.operators.registry import operator
from anydevice.sim.place import device_of

if TYPE_CHECKING:
    from anydevice.sim.plan import Plan
    from anydevice.sim.simulation import Simulation


@operator("aten::to_mkldnn")
def to_mkldnn(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """oneDNN's tensors are made from those of the CPU (ATen/native/mkldnn/MKLDNNConversions.cpp)."""
    if device_of(args[0]).type not in ("cpu", "meta"):
        raise RuntimeError("dense_to_mkldnn expects CPU tensor input")
    return general(sim, plan, args, kwargs)
