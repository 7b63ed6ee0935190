"""Operators that take data from one device to another, or say to which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydevice.sim.dispatch import claim, general
from anydevice.sim.operators.registry import operator
from anydevice.sim.place import device_of

if TYPE_CHECKING:
    from anydevice.sim.plan import Plan
    from anydevice.sim.simulation import Simulation


@operator("aten::copy_")
def copy_(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The target stays where it is, the source may be anywhere (ATen/native/Copy.cpp)."""
    target, source = args[:2]
    sim.copied(source, device_of(source), device_of(target), non_blocking=bool(args[2:] and args[2]))
    return plan.func(*args, **kwargs)


@operator("aten::_to_copy")
def to_copy(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A copy on the device that is asked for (ATen/native/TensorConversions.cpp)."""
    asked = kwargs.get("device")
    if asked is None:
        return general(sim, plan, args, kwargs)
    target = sim.resolve(asked)
    if target.type == "meta":
        return plan.func(*args, **kwargs)
    source = args[0]
    sim.check_dtype(target, kwargs.get("dtype") or source.dtype)
    out = plan.func(source, **{**kwargs, "device": None, "pin_memory": None})
    claim(sim, target, out)
    sim.copied(source, device_of(source), target, non_blocking=bool(kwargs.get("non_blocking")))
    return out
