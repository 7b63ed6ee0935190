"""Methods of `torch.Tensor` that the simulator replaces, for subclasses and modes that override them by `__torch_function__`."""

from __future__ import annotations

import functools
import inspect
from types import MethodType
from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function_unary

from anydevice.patching.patches import Patches


class Method:
    """A method in the place of another. It is equal to the other, so that a table of overrides finds either by either."""

    def __init__(self, replacement: Any, original: Any) -> None:
        functools.update_wrapper(self, replacement)
        self._original = original

        def call(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if has_torch_function_unary(tensor):
                return handle_torch_function(self, (tensor,), tensor, *args, **kwargs)
            return replacement(tensor, *args, **kwargs)

        self._call = functools.update_wrapper(call, replacement)

    def __call__(self, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        return self._call(tensor, *args, **kwargs)

    def __get__(self, tensor: Any, owner: type | None = None) -> Any:
        return self if tensor is None else MethodType(self._call, tensor)

    def __hash__(self) -> int:
        return hash(self._original)

    def __eq__(self, other: object) -> bool:
        return self is other or self._original == (other._original if isinstance(other, Method) else other)


def honour(patches: Patches) -> None:
    """Let overrides see what is replaced on `torch.Tensor`, as they see PyTorch's own methods and attributes."""
    for name, original, replacement in patches.of(torch.Tensor):
        if isinstance(replacement, property):
            getter = Method(replacement.fget, original.__get__)
            patches.set(torch.Tensor, name, property(getter._call))
        elif inspect.isfunction(replacement):
            patches.set(torch.Tensor, name, Method(replacement, original))
