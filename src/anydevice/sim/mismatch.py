"""Tensors on several devices in one operator: what PyTorch allows, and the error for what it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from anydevice.sim.place import CPU, device_of, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydevice.sim.plan import Plan


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


def common_device(plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    """The device on which the operator runs.

    A CPU tensor without dimensions may meet tensors of an accelerator, unless it is written to; nothing else may
    (ATen/TensorIterator.cpp, `compute_types`).

    Raises:
        RuntimeError: the tensors are on several devices and PyTorch would say so.
    """
    given = list(operands(plan, args, kwargs))
    if any(operand.device.type == "meta" for operand in given):
        return CPU  # torch itself knows what to say of these
    home = next((o.device for o in given if not o.is_cpu_scalar), given[0].device if given else CPU)
    for operand in given:
        if operand.device != home and not (operand.is_cpu_scalar and operand.name not in plan.writes):
            raise error(plan, given, home)
    return home


def error(plan: Plan, given: list[Operand], home: torch.device) -> RuntimeError:
    """The error of an operator that got tensors of several devices, with a note on where each of them came from."""
    other = next(o for o in given if o.device != home)
    failure = RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{home} and {other.device}!"
    )
    return annotate(failure, given)


def annotate(failure: RuntimeError, given: list[Operand]) -> RuntimeError:
    """Add the source line where each tensor was made or last moved."""
    if hasattr(failure, "add_note"):  # Python 3.11
        for operand in given:
            place = place_of(operand.tensor)
            line = place.line if place is not None else None
            if line is not None:
                failure.add_note(f"'{operand.name}' is on {operand.device} since {line}: {line.text}")
    return failure
