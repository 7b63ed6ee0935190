"""One walk over data: the tensors in it that are elsewhere, and the containers that must be made anew for them."""

from __future__ import annotations

from collections import UserDict, UserList, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from anydevice.runtime.moving.containers import Kind, kind_of, moves_itself
from anydevice.runtime.moving.quick import PLAIN_LEAVES

_REBUILT = (dict, list, set, frozenset, deque, UserDict, UserList)
Mover = Callable[[Any, torch.device], Any]

# classes that a program has said how to move, by `to_device.register`
registered: dict[type, Mover] = {}


@dataclass
class Survey:
    """What a walk has found. Everything in it is kept alive by the data, so that an `id` stays that of its object.

    Attributes:
        tensors: those that are not on the target, each once.
        movers: objects that move themselves.
        holders: containers by their `id`, with how they are taken apart.
        inside: `id` of an object -> the `id`s of the containers that it was met in.
    """

    tensors: list[torch.Tensor] = field(default_factory=list)
    movers: list[Any] = field(default_factory=list)
    holders: dict[int, tuple[Any, Kind]] = field(default_factory=dict)
    inside: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def around(self, changed: list[int]) -> list[int]:
        """The containers that must be made anew where the objects of these `id`s are replaced, innermost first."""
        found: dict[int, None] = {}
        waiting = list(changed)
        while waiting:
            for holder in self.inside.get(waiting.pop(), ()):
                if holder not in found:
                    found[holder] = None
                    waiting.append(holder)
        return list(found)


def survey(data: Any, target: torch.device) -> Survey:
    """Walk `data`, however deep it is and whether or not it contains itself."""
    found = Survey()
    seen: set[int] = set()
    waiting: list[tuple[Any, int]] = [(data, 0)]
    while waiting:
        item, holder = waiting.pop()
        cls: Any = type(item)
        if cls in PLAIN_LEAVES:
            continue
        key = id(item)
        if holder:
            found.inside[key].append(holder)
        if key in seen:
            continue
        seen.add(key)
        if issubclass(cls, torch.Tensor) and not _mover(cls):
            if item.device != target:
                found.tensors.append(item)
        elif _mover(cls) or _prefers_itself(cls):
            found.movers.append(item)
        else:
            kind = kind_of(cls)
            if kind is not None:
                found.holders[key] = (item, kind)
                waiting += [(value, key) for value in kind.contents(item)]
    return found


def moved_itself(item: Any, target: torch.device, *, non_blocking: bool) -> Any:
    """What an object's own way of moving gives; the object where that gives nothing."""
    cls: Any = type(item)
    mover = _mover(cls)
    if mover is not None:
        return mover(item, target)
    answer = item.to(target, non_blocking=non_blocking) if moves_itself(cls)[1] else item.to(target)
    return item if answer is None else answer


def _mover(cls: type) -> Mover | None:
    return next((registered[base] for base in cls.__mro__ if base in registered), None) if registered else None


def _prefers_itself(cls: type) -> bool:
    """Whether its own `to` is called. Dicts, lists and sets are rebuilt instead: many a `to` of theirs changes them."""
    return moves_itself(cls)[0] and not issubclass(cls, _REBUILT)
