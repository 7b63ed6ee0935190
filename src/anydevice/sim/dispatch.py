"""Runs one operator in the simulated world: on which device is the result, and would the accelerator have refused?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from anydevice.sim import custom_operators, higher_order, kernel_errors, mismatch
from anydevice.sim.asked import LOOSE, asked, home_of_gradient
from anydevice.sim.operators import registry
from anydevice.sim.place import CPU, Place, device_of, parts_of, place_of, storage_of
from anydevice.sim.plan import Handler, Plan, has_device_argument, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from anydevice.sim.simulation import Simulation

Tensor = torch.Tensor
_FAKE = torch._C._TorchDispatchModeKey.FAKE
# argument types that hold no tensor; looked up in a set, since isinstance of a tensor type is slow
_PLAIN = frozenset({int, float, bool, type(None), complex, str, torch.dtype, torch.device, torch.layout, torch.Size})

_ORDINARY = frozenset({torch.Tensor, torch.nn.Parameter})

# by id: hashing an OpOverload runs Python code. The plan holds its operator, so an id is never reused.
_plans: dict[int, Plan] = {}


class Dispatcher(TorchDispatchMode):
    """Sees every operator that reaches a kernel, below autograd."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self.simulation = simulation

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled in a simulation, and asking for that anew takes longer than all the rest

    def __torch_dispatch__(  # type: ignore[no-untyped-def, override]
        self, func, types, args=(), kwargs=None
    ):
        if types and not _ORDINARY.issuperset(types) and any(map(_unfolds, types)):
            if FakeTensor in types:  # their mode is always below this one
                return func(*args, **(kwargs or {}))
            return NotImplemented  # such tensors unfold themselves first; what they are made of comes here
        plan = _plans.get(id(func))
        if plan is None:
            if not isinstance(func, torch._ops.OpOverload):
                with self:
                    return higher_order.eager(func)(*args, **(kwargs or {}))
            plan = plan_of(func)
        try:
            return plan.handle(self.simulation, plan, args, kwargs or {})
        except (RuntimeError, IndexError) as failure:  # NotImplementedError is a RuntimeError
            return kernel_errors.answer(self.simulation, plan, args, kwargs or {}, failure)


def _unfolds(kind: type) -> bool:
    """Does this tensor subclass run operators itself?"""
    return kind.__torch_dispatch__ not in (Tensor.__torch_dispatch__, torch._C._disabled_torch_dispatch_impl)  # type: ignore[attr-defined]


def plan_of(func: torch._ops.OpOverload) -> Plan:
    """How to run `func`: by a rule of its own, or by what its schema says."""
    plan = _plans[id(func)] = read(func, registry.handler_of(func) or _handler_by_schema(func))
    return plan


def _handler_by_schema(func: torch._ops.OpOverload) -> Handler:
    if custom_operators.is_custom(func):
        return custom_operators.custom
    if func._can_decompose() and _is_composite(func):
        return decomposed
    if has_device_argument(func):
        return placed
    return general


def _is_composite(func: torch._ops.OpOverload) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")


def general(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operator whose results are where its inputs are."""
    home = None
    try:
        for a in args if plan.flat and not kwargs else flatten(args, kwargs):
            if type(a) in _PLAIN or not isinstance(a, Tensor):
                continue
            place = storage_of(a).place  # type: ignore[attr-defined]
            device = CPU if place is None else place.device
            if home is None:
                home = device
            elif device is not home:
                home = mismatch.common_device(sim, plan, args, kwargs)
                break
    except NotImplementedError:  # a tensor without storage: sparse and the like
        home = mismatch.common_device(sim, plan, args, kwargs)
    out = sim.draw(plan, args, kwargs, home) if plan.random else plan.func(*args, **kwargs)
    claim(sim, home or CPU, out)
    if plan.outs:
        recount(sim, out)
    return out


def placed(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operator whose caller may say where the result shall be; else it is with the inputs, or on the CPU."""
    if torch._C._get_dispatch_mode(_FAKE) is not None:
        return plan.func(*args, **kwargs)
    wanted = kwargs.get("device")
    if wanted is None and not kwargs.get("pin_memory"):
        return general(sim, plan, args, kwargs)
    if wanted is None:
        home = mismatch.common_device(sim, plan, args, kwargs)
    elif wanted.type == "cpu" and not asked.python:
        home = meant(sim, plan, args, kwargs)
    else:
        home = sim.resolve(wanted)
        if home.type == "meta":
            return plan.func(*args, **kwargs)
        kwargs = {**kwargs, "device": CPU}
    dtype = kwargs.get("dtype")
    if dtype is not None:
        sim.check_dtype(home, dtype)
    pinned = bool(kwargs.get("pin_memory"))
    if pinned:
        kwargs = {**kwargs, "pin_memory": False}
    out = sim.draw(plan, args, kwargs, home) if plan.random else plan.func(*args, **kwargs)
    claim(sim, home, out, pinned=pinned)
    if sim.observers and home.type == "cpu":
        sim.created(out)
    return out


def meant(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    """Where C++ code that says `cpu` wants its result: with its arguments, and where it has none, with what it meets."""
    given = list(mismatch.operands(plan, args, kwargs))
    if given:
        return mismatch.agree(sim, plan, given)
    return home_of_gradient() or LOOSE


def decomposed(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operator made of others, which comes here whole in inference mode, and for nested tensors, whose own it is."""
    if any(isinstance(a, Tensor) and a.is_nested for a in flatten(args, kwargs)):
        return general(sim, plan, args, kwargs)
    with sim.dispatcher:
        return plan.func.decompose(*args, **kwargs)


def claim(sim: Simulation, home: torch.device, out: Any, *, pinned: bool = False) -> None:
    """Put every new storage in `out` on `home`. What has a place already, a view or an argument, keeps it."""
    if isinstance(out, Tensor):
        try:
            storage = storage_of(out)
        except NotImplementedError:
            for part in parts_of(out):
                claim(sim, home, part)
            return
        if storage.place is None and not out.is_meta:  # type: ignore[attr-defined]
            if sim.lacks and out.dtype in sim.lacks:
                sim.check_dtype(home, out.dtype)
            storage.place = Place(home, sim.ledgers.get(home), storage.nbytes(), pinned=pinned)  # type: ignore[attr-defined]
    elif isinstance(out, (tuple, list)):
        for item in out:
            claim(sim, home, item)


def recount(sim: Simulation, out: Any) -> None:
    """A storage that an operator made larger or smaller is a new allocation on its device."""
    for item in out if isinstance(out, (tuple, list)) else (out,):
        if not isinstance(item, Tensor) or item.layout is not torch.strided:
            continue
        place, storage = place_of(item), storage_of(item)
        if place is not None and place.ledger is not None and storage.nbytes() != place.nbytes:
            storage.place = Place(place.device, place.ledger, storage.nbytes())  # type: ignore[attr-defined]


def flatten(args: Iterable[Any], kwargs: dict[str, Any]) -> Iterator[Any]:
    """Arguments, and what is in lists of them."""
    for a in (*args, *kwargs.values()):
        if type(a) is list or type(a) is tuple:
            yield from a
        else:
            yield a


__all__ = ["Dispatcher", "claim", "decomposed", "device_of", "flatten", "general", "placed", "plan_of", "recount"]
