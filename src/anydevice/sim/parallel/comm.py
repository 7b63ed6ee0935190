"""What `torch.cuda.comm`, and with it `nn.DataParallel`, calls to spread tensors over devices and to bring them back.

PyTorch's own wrappers (torch/nn/parallel/comm.py) stay; only the functions of C++ below them, which a build without CUDA
lacks, are here. They answer as those of torch/csrc/cuda/comm.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._utils import _flatten_dense_tensors, _take_tensors, _unflatten_dense_tensors

from anydevice.patching.patches import Patches
from anydevice.sim.simulation import Simulation, current


def install(patches: Patches, simulation: Simulation) -> None:
    """Give the build what it lacks, in worlds whose build has it."""
    if not simulation.world.has_streams:
        return
    for function in (broadcast, broadcast_out, broadcast_coalesced, scatter, scatter_out, gather, gather_out):
        patches.set(torch._C, f"_{function.__name__}", function)


def broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    """A copy on each device; on its own it is the tensor itself."""
    for index in devices:
        _require(index >= 0, f"Expected non-negative device index, but got {index}")
    return [tensor if index == tensor.get_device() else _to(tensor, index) for index in devices]


def broadcast_out(tensor: torch.Tensor, out: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Copy into each of `out`."""
    for number, target in enumerate(out):
        _on_device(target, number, "output")
        _require(
            target.shape == tensor.shape,
            f"Expected all output tensors to have same shape as the source tensor {list(tensor.shape)}, but output "
            f"tensor at index {number} has shape {list(target.shape)}",
        )
    for target in out:
        target.copy_(tensor, non_blocking=True)
    return list(out)


def broadcast_coalesced(
    tensors: Sequence[torch.Tensor], devices: Sequence[int], buffer_size: int
) -> list[list[torch.Tensor]]:
    """Copies of many tensors on each device, small ones in one go; on the first device they are the tensors themselves."""
    first = devices[0]
    _require(all(tensor.get_device() == first for tensor in tensors), f"All tensors must be on devices[0]: {first}")
    outputs: list[list[torch.Tensor]] = [list(tensors), *([] for _ in devices[1:])]
    order: list[torch.Tensor] = []
    for chunk in _take_tensors([tensor for tensor in tensors if not tensor.is_sparse], buffer_size):
        order += chunk
        flat = _flatten_dense_tensors(chunk)
        for index, output in zip(devices[1:], outputs[1:], strict=True):
            # one version counter each, though they share a buffer
            output += [view.data for view in _unflatten_dense_tensors(_to(flat, index), chunk)]
    for tensor in tensors:
        if tensor.is_sparse:
            order.append(tensor)
            for index, output in zip(devices[1:], outputs[1:], strict=True):
                output.append(_to(tensor, index).detach())
    return [outputs[0], *(_in_order(output, order, tensors) for output in outputs[1:])]


def scatter(
    tensor: torch.Tensor,
    devices: Sequence[int],
    chunk_sizes: Sequence[int] | None,
    dim: int,
    streams: Sequence[Any] | None = None,
) -> list[torch.Tensor]:
    """A part of the tensor on each device."""
    _require(len(devices) > 0, "Expected at least one device to scatter to")
    if chunk_sizes is not None:
        _require(
            len(chunk_sizes) == len(devices),
            "Expected devices and chunk_sizes to be of same length, but got "
            f"len(devices) = {len(devices)} and len(chunk_sizes) = {len(chunk_sizes)}",
        )
        chunks = list(tensor.split_with_sizes(list(chunk_sizes), dim=dim))
    else:
        chunks = list(tensor.chunk(len(devices), dim=dim))
    for number, (chunk, index) in enumerate(zip(list(chunks), devices, strict=False)):
        if index != tensor.get_device():
            _same_stream(streams, number, index)
            _require(index >= 0, f"Expected non-negative device index, but got {index}")
            chunks[number] = _to(chunk, index)
    return chunks


def scatter_out(
    tensor: torch.Tensor, out: Sequence[torch.Tensor], dim: int, streams: Sequence[Any] | None = None
) -> list[torch.Tensor]:
    """Copy a part of the tensor into each of `out`."""
    _require(len(out) > 0, "Expected at least one output tensor to scatter to")
    dim = _wrapped(dim, tensor)
    for number, target in enumerate(out):
        _on_device(target, number, "output")
        expected = [*target.shape[:dim], *tensor.shape[dim : dim + 1], *target.shape[dim + 1 :]]
        _require(
            target.dim() == tensor.dim() and expected == list(tensor.shape),
            f"Output tensor at index {number} has incorrect shape: {list(target.shape)}. Expected same shape except "
            f"for scatter dim {dim} as the source tensor: {list(tensor.shape)}",
        )
    sizes = [target.shape[dim] for target in out]
    _require(
        sum(sizes) == tensor.shape[dim],
        f"Total size for output tensors along scatter dim {dim} does not match the source tensor size at dim {dim}. "
        f"Expected {tensor.shape[dim]}, but got total size {sum(sizes)}",
    )
    for number, (target, chunk) in enumerate(zip(out, tensor.split_with_sizes(sizes, dim=dim), strict=True)):
        _same_stream(streams, number, target.get_device())
        target.copy_(chunk, non_blocking=True)
    return list(out)


def gather(tensors: Sequence[torch.Tensor], dim: int, destination: int | None) -> torch.Tensor:
    """The tensors side by side on one device; -1 is the CPU, None the current device."""
    shape = _shape_of_gathered(tensors, dim)
    first = tensors[0]
    if destination == -1:
        device = torch.device("cpu")
    else:
        device = current().resolve(
            torch.device(_kind(), current().current_index if destination is None else destination)
        )
    return _gather_into(tensors, first.new_empty(shape, device=device), _wrapped(dim, first))


def gather_out(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
    """The tensors side by side in `out`."""
    shape = _shape_of_gathered(tensors, dim)
    _require(list(out.shape) == shape, f"Expected out tensor to have shape {shape}, but got {list(out.shape)}")
    return _gather_into(tensors, out, _wrapped(dim, tensors[0]))


def _gather_into(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
    parts = out.split_with_sizes([tensor.shape[dim] for tensor in tensors], dim=dim)
    for part, tensor in zip(parts, tensors, strict=True):
        part.copy_(tensor, non_blocking=out.device.type != "cpu")
    return out


def _shape_of_gathered(tensors: Sequence[torch.Tensor], dim: int) -> list[int]:
    _require(len(tensors) > 0, "Expected at least one tensor to gather from")
    dim = _wrapped(dim, tensors[0])
    shape = list(tensors[0].shape)
    for number, tensor in enumerate(tensors):
        _on_device(tensor, number, "input")
        _require(
            tensor.dim() == len(shape),
            "Expected all input tensors to have the same number of dimensions, but tensor at index "
            f"{number}has {tensor.dim()} dimensions, (expected {len(shape)})",  # so it is written there
        )
        shape[dim] = tensor.shape[dim]
        _require(
            list(tensor.shape) == shape,
            f"Input tensor at index {number} has invalid shape {list(tensor.shape)}, but expected {shape}",
        )
    shape[dim] = sum(tensor.shape[dim] for tensor in tensors)
    return shape


def _in_order(
    output: list[torch.Tensor], order: list[torch.Tensor], wanted: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    place = {id(tensor): copy for tensor, copy in zip(order, output, strict=True)}
    return [place[id(tensor)] for tensor in wanted]


def _to(tensor: torch.Tensor, index: int) -> torch.Tensor:
    return tensor.to(torch.device(_kind(), index), non_blocking=True)


def _kind() -> str:
    return current().world.device_type or "cuda"


def _on_device(tensor: torch.Tensor, number: int, role: str) -> None:
    kind = _kind()
    where = f"{role} tensor" if role == "output" else "tensor"
    _require(
        tensor.device.type == kind,
        f"Expected all {role} tensors to be {kind.upper()} tensors, but {where} at index {number} has device "
        f"'{tensor.device}'",
    )


def _same_stream(streams: Sequence[Any] | None, number: int, index: int) -> None:
    stream = streams[number] if streams is not None and number < len(streams) else None
    if stream is not None:
        _require(
            stream.device_index == index,
            f"Expected the device associated with the stream at index {number} (was {stream.device_index}) to match "
            f"the device supplied at that index (expected {index})",
        )


def _wrapped(dim: int, tensor: torch.Tensor) -> int:
    count = max(tensor.dim(), 1)
    if not -count <= dim < count:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got {dim})")
    return dim % count


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise RuntimeError(text)
