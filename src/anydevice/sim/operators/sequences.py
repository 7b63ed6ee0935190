"""Operators on sequences of many lengths: the lengths are on the CPU, the data is where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from anydevice.sim import mismatch
from anydevice.sim.dispatch import claim, general
from anydevice.sim.operators.registry import operator
from anydevice.sim.place import CPU, device_of

if TYPE_CHECKING:
    from anydevice.sim.plan import Plan
    from anydevice.sim.simulation import Simulation


@operator("aten::_pack_padded_sequence")
def pack(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`batch_sizes` is on the CPU always, and `lengths` must be (ATen/native/PackedSequence.cpp, `checkLongTensor`)."""
    data, lengths = args[:2]
    if device_of(lengths).type not in ("cpu", "meta"):
        scalar = "Long" if lengths.dtype is torch.int64 else str(lengths.dtype).removeprefix("torch.").capitalize()
        raise mismatch.annotate(
            RuntimeError(
                "'lengths' argument should be a 1D CPU int64 tensor, "
                f"but got {lengths.dim()}D {device_of(lengths)} {scalar} tensor"
            ),
            mismatch.operands(plan, args, kwargs),
        )
    packed, batch_sizes = plan.func(*args, **kwargs)
    claim(sim, device_of(data), packed)
    claim(sim, CPU, batch_sizes)
    return packed, batch_sizes


@operator("aten::_pack_padded_sequence_backward")
def pack_backward(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The gradient of the data, where the data is."""
    out = plan.func(*args, **kwargs)
    claim(sim, device_of(args[0]), out)
    return out


@operator("aten::_ctc_loss", "aten::_ctc_loss.Tensor")
def ctc_loss(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Lengths may be on the CPU, and so may targets that cuDNN takes (ATen/native/LossCTC.cpp, cudnn/LossCTC.cpp)."""
    given = mismatch.settle(sim, list(mismatch.operands(plan, args, kwargs)))
    probabilities, targets = given[:2]
    if probabilities.device == targets.device:
        checked = given[:2]
    else:
        blank = args[4] if len(args) > 4 else kwargs.get("blank", 0)
        fits = blank == 0 and targets.tensor.dim() == 1 and targets.tensor.dtype is torch.int32
        fits = fits and probabilities.tensor.dtype is torch.float32 and probabilities.device.type == "cuda"
        checked = given[:1] if fits and targets.device.type == "cpu" and "cuda" in sim.world.versions else given[:2]
    home = mismatch.agree(sim, plan, checked)
    out = plan.func(*args, **kwargs)
    claim(sim, home, out)
    return out


@operator("aten::_ctc_loss_backward")
def ctc_loss_backward(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """As the forward decided."""
    if len({operand.device for operand in mismatch.operands(plan, args, kwargs)}) <= 1:
        return general(sim, plan, args, kwargs)
    out = plan.func(*args, **kwargs)
    claim(sim, device_of(args[0]), out)
    return out
