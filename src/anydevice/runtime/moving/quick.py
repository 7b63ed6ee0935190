"""The commonest data by the shortest way: dicts, lists and tuples of ordinary tensors that share no memory."""

from __future__ import annotations

from typing import Any

import torch

from anydevice.runtime.backends import backend_of

PLAIN_LEAVES = frozenset({str, int, float, bool, type(None), bytes})
_PLAIN_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
_DEEP = 32  # what is nested deeper, or contains itself, goes the long way


def is_there(data: Any, target: torch.device, depth: int = _DEEP) -> bool:
    """Whether nothing has to be done, as far as a quick look at the commonest types can tell."""
    cls: Any = type(data)
    if cls in _PLAIN_TENSORS:
        return bool(data.device == target)
    if cls is dict:
        values = data.values()
    elif cls is list or cls is tuple:
        values = data
    else:
        return cls in PLAIN_LEAVES
    if not depth:
        return False
    for value in values:
        cls = type(value)
        if cls is torch.Tensor:
            if value.device != target:
                return False
        elif cls not in PLAIN_LEAVES and not is_there(value, target, depth - 1):
            return False
    return True


def is_simple(data: Any, target: torch.device) -> bool:
    """Whether `rebuilt` moves it rightly."""
    try:
        return _is_simple(data, backend_of(target.type).missing, set(), _DEEP)
    except (RuntimeError, NotImplementedError):  # a tensor without a storage of its own
        return False


def _is_simple(data: Any, missing: frozenset[torch.dtype], storages: set[int], depth: int) -> bool:
    cls: Any = type(data)
    if cls in _PLAIN_TENSORS:
        storage = data.untyped_storage()._cdata
        if storage in storages or not data.is_contiguous() or data.__dict__ or (missing and data.dtype in missing):
            return False  # shares memory, shows less or more than its memory, or carries something
        storages.add(storage)
        return True
    if cls is dict:
        values = data.values()
    elif cls is list or cls is tuple:
        values = data
    else:
        return cls in PLAIN_LEAVES
    if not depth:
        return False
    for value in values:  # faster than all()
        if type(value) not in PLAIN_LEAVES and not _is_simple(value, missing, storages, depth - 1):
            return False
    return True


def rebuilt(data: Any, target: torch.device, keywords: dict[str, bool]) -> Any:
    """Simple data on `target`; what holds nothing that was elsewhere is returned as it is."""
    cls: Any = type(data)
    if cls in _PLAIN_TENSORS:
        return data if data.device == target else data.to(target, **keywords)
    if cls is dict:
        made = {
            key: value if type(value) in PLAIN_LEAVES else rebuilt(value, target, keywords)
            for key, value in data.items()
        }
        return made if any(made[key] is not value for key, value in data.items()) else data
    if cls is list or cls is tuple:
        there = [value if type(value) in PLAIN_LEAVES else rebuilt(value, target, keywords) for value in data]
        for new, old in zip(there, data, strict=True):
            if new is not old:
                return there if cls is list else tuple(there)
    return data
