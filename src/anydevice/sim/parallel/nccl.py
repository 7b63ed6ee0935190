"""What `torch.cuda.nccl` calls: collectives between the devices of one process (torch/csrc/cuda/python_nccl.cpp)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.errors import NotSimulated
from anydevice.sim.simulation import Simulation

Tensors = Sequence[torch.Tensor]

VERSION = (2, 21, 5)  # what PyTorch 2.6 for CUDA 12 asks for, `nvidia-nccl-cu12==2.21.5`

# ncclRedOp_t, by its number (nccl.h)
_PAIRWISE: tuple[Callable[[torch.Tensor, torch.Tensor], torch.Tensor], ...] = (
    torch.Tensor.add,
    torch.Tensor.mul,
    torch.maximum,
    torch.minimum,
    torch.Tensor.add,
)
_AVERAGE = 4


def install(patches: Patches, simulation: Simulation) -> None:
    """Give the build what it lacks, in worlds whose build has it."""
    if "nccl" not in simulation.world.collectives:
        return
    for function in (all_reduce, reduce, broadcast, all_gather, reduce_scatter, unique_id, init_rank):
        patches.set(torch._C, f"_nccl_{function.__name__}", function)
    major, minor, patch = VERSION
    patches.set(torch._C, "_nccl_version", lambda: major << 32 | minor << 16 | patch)
    patches.set(torch._C, "_nccl_version_suffix", lambda: b"")


def all_reduce(inputs: Tensors, outputs: Tensors, op: int = 0, streams: Any = None, comms: Any = None) -> None:
    """The reduction of all inputs, in every output."""
    _check(inputs, outputs)
    result = _reduced(inputs, op)
    for output in outputs:
        output.copy_(result, non_blocking=True)


def reduce(
    inputs: Tensors, output: torch.Tensor, root: int = 0, op: int = 0, streams: Any = None, comms: Any = None
) -> None:
    """The reduction of all inputs, in the output beside the input `root`."""
    _require(0 <= root < len(inputs), "invalid root")
    _check(inputs, [output if number == root else None for number in range(len(inputs))])
    output.copy_(_reduced(inputs, op), non_blocking=True)


def broadcast(inputs: Tensors, root: int = 0, streams: Any = None, comms: Any = None) -> None:
    """The input `root`, in all of them."""
    _require(0 <= root < len(inputs), "invalid root")
    _check(inputs, inputs)
    for target in inputs:
        if target is not inputs[root]:
            target.copy_(inputs[root], non_blocking=True)


def all_gather(inputs: Tensors, outputs: Tensors, streams: Any = None, comms: Any = None) -> None:
    """All inputs one after the other, in every output."""
    _check(inputs, outputs, output_is=len(inputs))
    for output in outputs:
        for part, source in zip(output.view(-1).chunk(len(inputs)), inputs, strict=True):
            part.copy_(source.view(-1), non_blocking=True)


def reduce_scatter(inputs: Tensors, outputs: Tensors, op: int = 0, streams: Any = None, comms: Any = None) -> None:
    """The reduction of all inputs, a part of it in each output."""
    _check(inputs, outputs, input_is=len(inputs))
    for output, part in zip(outputs, _reduced(inputs, op).view(-1).chunk(len(outputs)), strict=True):
        output.view(-1).copy_(part, non_blocking=True)


def unique_id() -> bytes:
    """Refused: communicators are for other processes, which `torch.distributed` serves."""
    raise NotSimulated("torch.cuda.nccl.unique_id", "use torch.distributed")


def init_rank(num_ranks: int, uid: bytes, rank: int) -> object:
    """Refused, like `unique_id`."""
    raise NotSimulated("torch.cuda.nccl.init_rank", "use torch.distributed")


def _reduced(inputs: Tensors, op: int) -> torch.Tensor:
    """The reduction, on the device of the first input."""
    first = inputs[0].detach()
    result = functools.reduce(
        lambda left, right: _PAIRWISE[op](left, right.detach().to(left.device, non_blocking=True)), inputs[1:], first
    )
    if op == _AVERAGE:
        result = (result / len(inputs)).to(first.dtype)
    return result.clone() if result is first else result


def _check(inputs: Tensors, outputs: Sequence[torch.Tensor | None], *, input_is: int = 1, output_is: int = 1) -> None:
    """What NCCL may be asked (`check_inputs` of torch/csrc/cuda/nccl.cpp)."""
    _require(len(inputs) != 0, "input sequence can't be empty")
    _require(
        len(inputs) == len(outputs),
        "inputs and outputs sequences have to be of the same length, but got input of length "
        f"{len(inputs)} and output of length {len(outputs)}",
    )
    count, dtype = inputs[0].numel(), inputs[0].dtype
    seen = set()
    for source, target in zip(inputs, outputs, strict=True):
        for tensor in (source, target):
            if tensor is None:
                continue
            _require(tensor.is_cuda and not tensor.is_sparse, "input and output elements have to be cuda dense Tensors")
            _require(tensor.dtype == dtype, "all inputs and outputs must be of the same Tensor dtype")
            _require(tensor.is_contiguous(), "all inputs and outputs have to be contiguous")
        _require(source.numel() == count, "all inputs must have the same number of elements")
        if target is not None:
            _require(source.get_device() == target.get_device(), "input and output must be on the same device")
            _require(
                target.numel() * input_is == count * output_is, "output must be of size input_size * size_multiplier"
            )
        _require(source.get_device() not in seen, "inputs must be on unique devices")
        seen.add(source.get_device())


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise RuntimeError(text)
