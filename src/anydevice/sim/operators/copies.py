"""Operators that take data from one device to another, or say to which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from anydevice.sim import mismatch
from anydevice.sim.asked import LOOSE, asked
from anydevice.sim.dispatch import claim, general, recount
from anydevice.sim.operators.registry import operator
from anydevice.sim.place import device_of

if TYPE_CHECKING:
    from anydevice.sim.plan import Plan
    from anydevice.sim.simulation import Simulation


@operator("aten::copy_")
def copy_(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The target stays where it is, the source may be anywhere (ATen/native/Copy.cpp)."""
    target, source = mismatch.settle(sim, list(mismatch.operands(plan, args[:2], {})))
    sim.copied(source.tensor, source.device, target.device, non_blocking=bool(args[2:] and args[2]))
    return plan.func(*args, **kwargs)


@operator("aten::_to_copy")
def to_copy(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A copy on the device that is asked for (ATen/native/TensorConversions.cpp)."""
    wanted = kwargs.get("device")
    if wanted is None:
        return general(sim, plan, args, kwargs)
    if wanted.type == "cpu" and not asked.python:  # C++ code: "where that other tensor is"
        home = device_of(args[0])
        out = plan.func(*args, **kwargs)
        claim(sim, LOOSE if home.type == "cpu" else home, out)
        return out
    target = sim.resolve(wanted)
    if target.type == "meta":
        return plan.func(*args, **kwargs)
    source = args[0]
    sim.check_dtype(target, kwargs.get("dtype") or source.dtype)
    out = plan.func(source, **{**kwargs, "device": None, "pin_memory": None})
    claim(sim, target, out)
    sim.copied(source, device_of(source), target, non_blocking=bool(kwargs.get("non_blocking")))
    return out


@operator(
    "aten::slice_scatter", "aten::select_scatter", "aten::diagonal_scatter", "aten::as_strided_scatter", "aten::copy"
)
def copied_into(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A copy of the first tensor, into a part of which the second is copied (ATen/native/TensorShape.cpp)."""
    target, source = mismatch.settle(sim, list(mismatch.operands(plan, args, kwargs)))[:2]
    sim.copied(source.tensor, source.device, target.device, non_blocking=False)
    out = plan.func(*args, **kwargs)
    claim(sim, target.device, out)
    return out


@operator(
    "aten::resize_",
    "aten::resize",
    "aten::resize_as_",
    "aten::resize_as_sparse_",
    "aten::is_same_size",
    "aten::_has_same_storage_numel",
)
def shape_only(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Of a second tensor only the shape matters."""
    home = device_of(args[0])
    out = plan.func(*args, **kwargs)
    claim(sim, home, out)
    if isinstance(out, torch.Tensor):
        recount(sim, out)
    return out


@operator("aten::set_.source_Tensor", "aten::set_.source_Tensor_storage_offset", "aten::is_set_to")
def share(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Both tensors are on one device; the storage keeps its place (ATen/native/TensorShape.cpp, `checkSetStorage`)."""
    target, source = mismatch.settle(sim, list(mismatch.operands(plan, args, kwargs)))[:2]
    if target.device != source.device and plan.func._schema.name.removeprefix("aten::").rstrip("_") == "set":
        raise mismatch.error([target, source], target.device)
    return plan.func(*args, **kwargs)


@operator("aten::set_.source_Storage", "aten::set_.source_Storage_storage_offset")
def adopt(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The tensor gets the storage that is given, and with it the place of that (`checkSetStorage`)."""
    home, there = device_of(args[0]), args[1].device
    if home != there and home is not LOOSE:
        raise RuntimeError(
            f'Attempted to set the storage of a tensor on device "{home}" to a storage on different device "{there}".  '
            "This is no longer allowed; the devices must match."
        )
    return plan.func(*args, **kwargs)
