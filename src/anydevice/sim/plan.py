"""What the dispatcher must know of an operator, read once from its schema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from anydevice.sim.simulation import Simulation

Handler = Callable[["Simulation", "Plan", tuple[Any, ...], dict[str, Any]], Any]


@dataclass(slots=True, frozen=True)
class Plan:
    """An operator and the way in which it is run.

    Attributes:
        func: the operator.
        handle: runs it: places the result, raises what the accelerator would.
        flat: no argument is a list of tensors.
        names: the names of its arguments, in the order of the schema.
        writes: the names of the arguments that it writes to.
        random: it draws from a generator.
        outs: the names of its `out` arguments.
        guarded: the arguments that a generated wrapper compares, where the operator has one.
        pointwise: it goes through its tensors element by element.
    """

    func: torch._ops.OpOverload
    handle: Handler
    flat: bool
    names: tuple[str, ...]
    writes: frozenset[str]
    random: bool
    outs: frozenset[str]
    guarded: frozenset[str]
    pointwise: bool


def read(func: torch._ops.OpOverload, handle: Handler) -> Plan:
    """The plan of an operator that `handle` runs."""
    arguments = func._schema.arguments
    return Plan(
        func=func,
        handle=handle,
        flat=not any("Tensor" in str(a.type) and "List" in str(a.type) for a in arguments),
        names=tuple(a.name for a in arguments),
        writes=frozenset(a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write),
        random=torch.Tag.nondeterministic_seeded in func.tags,
        outs=frozenset(a.name for a in arguments if a.is_out),
        guarded=frozenset(a.name for a in arguments if not a.kwarg_only or a.is_out),
        pointwise=torch.Tag.pointwise in func.tags,
    )


def has_device_argument(func: torch._ops.OpOverload) -> bool:
    """Does the caller of the operator say where its result shall be?"""
    return any(a.name == "device" and a.kwarg_only for a in func._schema.arguments)
