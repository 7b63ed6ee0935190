"""Tensors copied to a device: what shares memory still does, dtypes that the device lacks are cast, and no copy is left
running that somebody could read too early."""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import TypeAlias

import torch

from anydevice.runtime.backends import backend_of

# tensors whose memory can be looked at as bytes
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
_ALIGNMENT = 16  # bytes of complex128, the largest element
# Views that are scattered over more memory than this many times their own bytes are copied one by one.
_SCATTERED = 8
_SMALLER = {torch.float64: torch.float32, torch.complex128: torch.complex64}

Extent: TypeAlias = "tuple[int, int, torch.Tensor]"  # first byte, end, and the tensor


def copied(tensors: list[torch.Tensor], target: torch.device, *, non_blocking: bool) -> dict[int, torch.Tensor]:
    """The tensors on `target`, by the `id` of the original.

    Those that share memory are copied as one and share it there, and an expanded tensor stays expanded. Tensors that
    require gradients are copied one by one, so that gradients come back to each.
    """
    made: dict[int, torch.Tensor] = {}
    alone, groups = _grouped(tensors)
    for group in groups:
        made.update(_together(group, target, non_blocking))
    for tensor in alone:
        made[id(tensor)] = one(tensor, target, non_blocking=non_blocking)
    return made


def one(tensor: torch.Tensor, target: torch.device, *, non_blocking: bool) -> torch.Tensor:
    """One tensor on `target`, in a dtype that it can hold."""
    dtype = held_as(tensor.dtype, target)
    if dtype is not tensor.dtype:
        tensor = tensor.to(dtype)  # before the copy: the device cannot hold the original
    return tensor.to(target, non_blocking=non_blocking and may_run_on(tensor.device, target))


def may_run_on(source: torch.device, target: torch.device) -> bool:
    """Whether a copy may go on in the background, with every reader still seeing the right values.

    True to the devices that order their work in streams, from the host or from one of their kind. Never to the host,
    which reads what has not arrived (pytorch#86264), and never to MPS (pytorch#139550, pytorch#189690).
    """
    return backend_of(target.type).uploads_behind and source.type in ("cpu", target.type)


def held_as(dtype: torch.dtype, target: torch.device) -> torch.dtype:
    """The dtype that `target` holds such values in; another one than `dtype` is warned of, once for each line."""
    if dtype not in backend_of(target.type).missing:
        return dtype
    smaller = _SMALLER[dtype]
    warnings.warn(
        f"{target.type} has no {dtype}: moved as {smaller}; to choose, cast before moving", UserWarning, stacklevel=2
    )
    return smaller


def _grouped(tensors: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[list[Extent]]]:
    """Those to copy by themselves, and those that share memory."""
    alone: list[torch.Tensor] = []
    extents: dict[int, list[Extent]] = defaultdict(list)
    for tensor in tensors:
        if type(tensor) not in _PLAIN or tensor.layout is not torch.strided or tensor.requires_grad or _flagged(tensor):
            alone.append(tensor)
        else:
            extents[tensor.untyped_storage()._cdata].append(_extent(tensor))
    groups: list[list[Extent]] = []
    for found in extents.values():
        for group in _overlapping(found) if len(found) > 1 else [found]:
            span = max(end for _, end, _ in group) - min(first for first, _, _ in group)
            shown = sum(tensor.nbytes for _, _, tensor in group)
            repeated = len(group) == 1 and 0 < span < shown  # expanded
            if repeated or (len(group) > 1 and span <= _SCATTERED * shown):
                groups.append(group)
            else:
                alone += [tensor for _, _, tensor in group]
    return alone, groups


def _flagged(tensor: torch.Tensor) -> bool:
    """Whether the values are not those in memory: lazily conjugated or negated, quantised, or a transform's."""
    return (
        tensor.is_conj()
        or tensor.is_neg()
        or tensor.is_quantized
        or torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )


def _extent(tensor: torch.Tensor) -> Extent:
    size = tensor.element_size()
    first = int(tensor.storage_offset()) * size
    if tensor.numel() == 0:
        return first, first, tensor
    last = sum(int(length - 1) * int(stride) for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return first, first + (last + 1) * size, tensor


def _overlapping(extents: list[Extent]) -> list[list[Extent]]:
    groups: list[list[Extent]] = []
    end = -1
    for extent in sorted(extents, key=lambda item: item[:2]):
        if extent[0] < end:
            groups[-1].append(extent)
        else:
            groups.append([extent])
        end = max(end, extent[1])
    return groups


def _together(group: list[Extent], target: torch.device, non_blocking: bool) -> dict[int, torch.Tensor]:
    """Copy the memory that the tensors span, once, and lay the same views over the copy."""
    tensors = [tensor for _, _, tensor in group]
    storage, source = tensors[0].untyped_storage(), tensors[0].device
    first, end = min(item[0] for item in group), max(item[1] for item in group)
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) == 1:
        (dtype,) = dtypes
        size = tensors[0].element_size()
        memory = torch.empty(0, dtype=dtype, device=source).set_(storage, first // size, ((end - first) // size,), (1,))
        there = one(memory, target, non_blocking=non_blocking)
        return {
            id(item): there.as_strided(item.shape, item.stride(), item.storage_offset() - first // size)
            for item in tensors
        }
    if dtypes & backend_of(target.type).missing:
        return {id(item): one(item, target, non_blocking=non_blocking) for item in tensors}  # no longer the same bytes
    first -= first % _ALIGNMENT
    raw = torch.empty(0, dtype=torch.uint8, device=source).set_(storage, first, (end - first,), (1,))
    there = one(raw, target, non_blocking=non_blocking)
    return {id(item): _view(there, item, first) for item in tensors}


def _view(raw: torch.Tensor, like: torch.Tensor, first: int) -> torch.Tensor:
    offset = like.storage_offset() - first // like.element_size()
    return torch.empty(0, dtype=like.dtype, device=raw.device).set_(
        raw.untyped_storage(), offset, like.shape, like.stride()
    )
