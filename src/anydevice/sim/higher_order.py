"""Operators that take Python functions (`torch.cond`, flex attention): run as PyTorch runs them without a compiler."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

import torch

from anydevice.sim.errors import NotSimulated


@functools.cache
def eager(func: torch._ops.HigherOrderOperator) -> Callable[..., Any]:
    """What computes `func` with ordinary operators.

    Raises:
        NotSimulated: only a compiler can run it.
    """
    keys = (torch._C.DispatchKey.CompositeExplicitAutograd, torch._C.DispatchKey.CPU)
    kernel = next((func.py_kernels[key] for key in keys if key in func.py_kernels), None)
    if kernel is None:
        raise NotSimulated(f"the higher-order operator {func}")
    if isinstance(kernel, MethodType) and isinstance(kernel.__func__, FunctionType):
        return MethodType(_unasked(kernel.__func__), kernel.__self__)
    return _unasked(kernel) if isinstance(kernel, FunctionType) else kernel


def _unasked(function: FunctionType) -> FunctionType:
    """The function, told that no mode is on: it asserts that, since a mode would have its own way to run it."""
    told = {**function.__globals__, "_get_current_dispatch_mode": lambda: None}
    made = FunctionType(function.__code__, told, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made
