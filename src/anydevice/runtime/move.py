"""`to_device`: data of any shape on a device, with types, sharing and views kept, and nothing copied that is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from anydevice.runtime.backends import backend_of
from anydevice.runtime.device import DeviceLike, normalised
from anydevice.runtime.moving.copies import copied, may_run_on
from anydevice.runtime.moving.modules import moved_module
from anydevice.runtime.moving.quick import is_simple, is_there, rebuilt
from anydevice.runtime.moving.survey import Mover, moved_itself, registered, survey

T = TypeVar("T")
M = TypeVar("M", bound=Callable[..., Any])

_targets: dict[DeviceLike, torch.device] = {"cpu": torch.device("cpu"), torch.device("cpu"): torch.device("cpu")}


def to_device(data: T, device: DeviceLike | None = None, *, non_blocking: bool = False) -> T:
    """`data` with all its tensors on `device`.

    Tensors inside dicts, lists, tuples, sets, dataclasses and their subclasses are found, at any depth; containers
    keep their type and attributes and are never changed: one that holds a tensor which was elsewhere is made anew, and
    one that holds none is returned as it is. A tensor that appears twice stays one tensor, views of one memory stay
    views of one memory (unless they are scattered over more than eight times their own bytes), and what contains
    itself still does. An object with a `to(device)` of its own is moved by it. A module is moved, in place, where it is
    `data` itself, and left alone inside of data.

    Args:
        data: anything; what has no tensors is returned as it is.
        device: where to; by default `get_device()`.
        non_blocking: let copies go on in the background where whoever uses the result still sees the right values:
            to CUDA and XPU, from pinned memory. Elsewhere they are waited for.

    Raises:
        ValueError: `device` names no device.
        RuntimeError: what PyTorch raises where a copy fails.
    """
    target = _targets.get(device) if device is not None else None  # type: ignore[call-overload]
    if target is None:
        target = normalised(device)
    if is_there(data, target) and not registered:
        return data
    moved: T = _moved(data, target, non_blocking)
    return moved


def register(cls: type) -> Callable[[M], M]:
    """Say how objects of a class are moved: decorates a function `(item, device) -> item on the device`."""

    def decorate(mover: M) -> M:
        registered[cls] = mover
        return mover

    return decorate


to_device.register = register  # type: ignore[attr-defined]


def _moved(data: Any, target: torch.device, non_blocking: bool) -> Any:
    if isinstance(data, torch.nn.Module):
        return moved_module(data, target, non_blocking=non_blocking)
    if not registered and is_simple(data, target):
        keywords = {"non_blocking": True} if non_blocking and backend_of(target.type).uploads_behind else {}
        return rebuilt(data, target, keywords)
    return _surveyed(data, target, non_blocking)


def _surveyed(data: Any, target: torch.device, non_blocking: bool) -> Any:
    found = survey(data, target)
    made: dict[int, Any] = {}
    try:
        if found.tensors:
            made.update(copied(found.tensors, target, non_blocking=non_blocking))
            for tensor in found.tensors:
                _carry_attributes(tensor, made[id(tensor)], target, non_blocking)
        for item in found.movers:
            there = moved_itself(item, target, non_blocking=non_blocking and may_run_on(torch.device("cpu"), target))
            if there is not item:
                made[id(item)] = there
    except Exception as error:
        _say_what(error, found.tensors, target)
        raise
    anew = found.around(list(made))
    holders = [found.holders[key] for key in anew]
    mutable = [(holder, kind) for holder, kind in holders if kind.mutable]
    fixed = {id(holder): kind for holder, kind in holders if not kind.mutable}
    for holder, kind in mutable:
        made[id(holder)] = kind.shell(holder)

    def resolve(item: Any) -> Any:
        key = id(item)
        if key in made:
            return made[key]
        kind = fixed.get(key)
        if kind is None:
            return item
        made[key] = built = kind.build(item, resolve)
        return built

    for holder, kind in mutable:
        kind.fill(made[id(holder)], holder, resolve)
    return resolve(data)


def _carry_attributes(tensor: torch.Tensor, there: torch.Tensor, target: torch.device, non_blocking: bool) -> None:
    """What a program or a subclass has put on a tensor, which `Tensor.to` leaves behind."""
    for name, value in getattr(tensor, "__dict__", {}).items():
        if name not in there.__dict__:
            there.__dict__[name] = to_device(value, target, non_blocking=non_blocking)


def _say_what(error: Exception, tensors: list[torch.Tensor], target: torch.device) -> None:
    """Add how much was being moved to an error, whose type says what went wrong; from Python 3.11 on."""
    add_note = getattr(error, "add_note", None)
    if add_note is not None and tensors:
        nbytes = sum(tensor.nbytes for tensor in tensors if tensor.layout is torch.strided)
        add_note(f"while anydevice moved {len(tensors)} tensors of {nbytes:,} bytes to {target}")


__all__ = ["Mover", "register", "to_device"]
