"""Operators that bring a value to the host, and so wait for the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydevice.sim.dispatch import general
from anydevice.sim.operators.registry import operator
from anydevice.sim.place import device_of

if TYPE_CHECKING:
    from anydevice.sim.plan import Plan
    from anydevice.sim.simulation import Simulation


@operator("aten::_local_scalar_dense")
def local_scalar(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`.item()`, `int(t)`, `bool(t)`: one element is copied to the host."""
    sim.synchronised(device_of(args[0]), "item", args[0].element_size())
    return plan.func(*args, **kwargs)


@operator("aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive")
def sized_by_data(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The size of the result depends on the data: the host waits for it."""
    sim.synchronised(device_of(args[0]), plan.func._schema.name.removeprefix("aten::"), 8)
    return general(sim, plan, args, kwargs)
