"""Tensors on several devices in one operator: what PyTorch allows, and the error for what it does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from anydevice.sim import device_checks
from anydevice.sim.asked import LOOSE
from anydevice.sim.place import CPU, Place, device_of, parts_of, place_of, storage_of

if TYPE_CHECKING:
    from anydevice.sim.plan import Plan
    from anydevice.sim.simulation import Simulation

_SAME = "Expected all tensors to be on the same device, but "
# the wording of the guards changed in PyTorch 2.8 (ATen/core/adaption.cpp), which also brought AcceleratorError
_NAMES_ARGUMENT = hasattr(torch, "AcceleratorError")

# what a linear layer calls the arguments of the products that it is made of
_LINEAR = {"mm": {"self": "input", "mat2": "weight"}, "addmm": {"self": "bias", "mat1": "input", "mat2": "weight"}}


class Operand(NamedTuple):
    """A tensor that an operator gets, and as what."""

    name: str
    tensor: torch.Tensor
    device: torch.device

    @property
    def is_cpu_scalar(self) -> bool:
        return self.device.type == "cpu" and self.tensor.dim() == 0


def operands(plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Operand]:
    """Every tensor among the arguments."""
    for name, value in (*zip(plan.names, args, strict=False), *kwargs.items()):
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor):
                yield Operand(name, item, device_of(item))


def common_device(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    """The device on which the operator runs.

    Raises:
        RuntimeError: the tensors are on several devices and PyTorch would say so.
    """
    return agree(sim, plan, list(operands(plan, args, kwargs)))


def agree(sim: Simulation, plan: Plan, given: list[Operand], *, many_scalars: bool = False) -> torch.device:
    """The device that these operands have in common.

    Where the operator has no guard of its own, a CPU tensor without dimensions may meet tensors of an accelerator,
    unless it is written to (ATen/TensorIterator.cpp, `compute_types`).

    Raises:
        RuntimeError: the operands are on several devices and PyTorch would say so.
    """
    if any(operand.device.type == "meta" for operand in given):
        return CPU  # torch itself knows what to say of these
    given = settle(sim, given)
    home = next((o.device for o in given if o.device.type != "cpu"), given[0].device if given else CPU)
    if all(operand.device == home for operand in given):
        return home
    guard(sim, plan.func._schema.name, plan.func._schema.overload_name, _guarded_first(plan, given))
    scalars = 0
    for operand in given:
        if operand.device == home:
            continue
        if not operand.is_cpu_scalar or operand.name in plan.writes:
            raise error(given, home)
        scalars += 1
        if scalars > 1 and plan.pointwise and not many_scalars:
            raise annotate(RuntimeError("Trying to pass too many CPU scalars to non-CPU kernel!"), given)
    return home


def settle(sim: Simulation, given: list[Operand]) -> list[Operand]:
    """Let operands that C++ code made, and that are nowhere yet, go where the others are."""
    if not any(operand.device is LOOSE for operand in given):
        return given
    settled = [operand for operand in given if operand.device is not LOOSE]
    home = next((o.device for o in settled if not o.is_cpu_scalar), settled[0].device if settled else LOOSE)
    if home is LOOSE or (home.type == "cpu" and settled[0].is_cpu_scalar and len(settled) == 1):
        return given
    return [o if o.device is not LOOSE else Operand(o.name, o.tensor, put(sim, o.tensor, home)) for o in given]


def put(sim: Simulation, tensor: torch.Tensor, home: torch.device) -> torch.device:
    """Place a tensor that is nowhere yet."""
    try:
        storages = [storage_of(tensor)]
    except NotImplementedError:
        storages = [storage_of(part) for part in parts_of(tensor)]
    for storage in storages:
        storage.place = Place(home, sim.ledgers.get(home), storage.nbytes())  # type: ignore[attr-defined]
    return home


def _guarded_first(plan: Plan, given: list[Operand]) -> list[Operand]:
    """The operands that a generated wrapper compares, in its order: an `out` before all others."""
    checked = [operand for operand in given if operand.name in plan.guarded]
    return sorted(checked, key=lambda operand: operand.name not in plan.outs)


def guard(sim: Simulation, name: str, overload: str, checked: list[Operand]) -> None:
    """The check in the generated wrapper of a kernel, which refuses even CPU scalars.

    Raises:
        RuntimeError: the kernel has such a wrapper, and the operands are on several devices.
    """
    kind = sim.world.device_type
    method = device_checks.method_of(name, overload) if kind else None
    if method is None or kind is None:
        return
    if "guard" in sim.world.texts:  # its kernels check for themselves
        for operand in checked:
            if operand.device.type != kind and not operand.is_cpu_scalar:
                argument = _LINEAR.get(name.removeprefix("aten::"), {}).get(operand.name, operand.name)
                text = sim.world.texts["guard"].format(argument=argument, device=operand.device)
                raise annotate(RuntimeError(text), checked)
        return
    for operand in checked:
        if operand.device != checked[0].device:
            raise guard_error(f"wrapper_{kind.upper()}_{method}", checked[0].device, operand, checked)


def guard_error(method: str, common: torch.device, operand: Operand, given: Iterable[Operand]) -> RuntimeError:
    """The error of the wrapper `method` (ATen/core/adaption.cpp)."""
    if _NAMES_ARGUMENT:
        text = (
            f"{_SAME}got {operand.name} is on {operand.device}, different from other tensors on {common} "
            f"(when checking argument in method {method})"
        )
    else:
        text = (
            f"{_SAME}found at least two devices, {common} and {operand.device}! "
            f"(when checking argument for argument {operand.name} in method {method})"
        )
    return annotate(RuntimeError(text), given)


def error(given: Iterable[Operand], home: torch.device) -> RuntimeError:
    """The error of an operator without a guard that got tensors of several devices."""
    given = list(given)
    other = next(o for o in given if o.device != home)
    return annotate(RuntimeError(f"{_SAME}found at least two devices, {home} and {other.device}!"), given)


def annotate(failure: RuntimeError, given: Iterable[Operand]) -> RuntimeError:
    """Add the source line where each tensor was made or last moved."""
    if hasattr(failure, "add_note"):  # Python 3.11
        for operand in given:
            place = place_of(operand.tensor)
            line = place.line if place is not None else None
            if line is not None:
                failure.add_note(f"'{operand.name}' is on {operand.device} since {line}: {line.text}")
    return failure
