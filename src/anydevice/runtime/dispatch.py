"""`dispatch`: one function with an implementation for each kind of device, chosen by where its arguments are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch

F = TypeVar("F", bound=Callable[..., Any])


class Dispatched:
    """A function with several implementations; call it as the function itself.

    Attributes:
        registry: the implementations by the type of device.
    """

    def __init__(self, default: Callable[..., Any]) -> None:
        functools.update_wrapper(self, default)
        self._default = default
        self.registry: dict[str, Callable[..., Any]] = {}

    def register(self, *kinds: str) -> Callable[[F], F]:
        """Make the decorated function the implementation for these types of device (`"cuda"`, `"mps"`).

        Raises:
            ValueError: no type is given, or one with an index: an implementation is for all devices of a kind.
        """
        if not kinds or any(not kind.isidentifier() for kind in kinds):
            raise ValueError(f"register{kinds!r}: give types of device, without an index: register('cuda')")

        def decorate(function: F) -> F:
            self.registry.update(dict.fromkeys(kinds, function))
            return function

        return decorate

    def dispatch(self, kind: str) -> Callable[..., Any]:
        """The implementation for a type of device: the one registered, else the decorated function."""
        return self.registry.get(kind, self._default)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kind: str | None = None
        for value in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(value, torch.Tensor):
                kind = _agreed(self, kind, value)
        if kind is None:
            kind = _searched(self, (*args, *kwargs.values()))
        return self.registry.get(kind, self._default)(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def dispatch(function: Callable[..., Any]) -> Dispatched:
    """Let a function have an implementation for each kind of device, as `functools.singledispatch` does for types.

        @anydevice.dispatch
        def smooth(x): ...          # everywhere else

        @smooth.register("cuda")
        def _(x): ...

    The device is that of the tensors among the arguments, else of those inside lists, tuples and dicts, else of a
    module or a `torch.device` given; else it is the CPU. A CPU tensor without dimensions goes with any device, as in
    PyTorch.

    Raises:
        RuntimeError: at the call, where the tensors are on several kinds of device.
    """
    return Dispatched(function)


def _agreed(function: Dispatched, kind: str | None, tensor: torch.Tensor) -> str | None:
    found = tensor.device.type
    if kind == found or (found == "cpu" and tensor.dim() == 0):
        return kind
    return found if kind is None else _mixed(function, kind, found)


def _mixed(function: Dispatched, kind: str, found: str) -> str:
    name = getattr(function, "__qualname__", "the function")
    raise RuntimeError(
        f"{name}() was given tensors on {kind} and on {found}; move them to one device first: anydevice.to_device(...)"
    )


def _searched(function: Dispatched, values: Iterable[Any]) -> str:
    """The kind of what is nested in the arguments, or of a module or device among them."""
    kind: str | None = None
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, torch.Tensor):
            kind = _agreed(function, kind, value)
        elif isinstance(value, (list, tuple)):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, torch.nn.Module):
            waiting += [tensor for tensor in (next(value.parameters(), None),) if tensor is not None]
        elif isinstance(value, torch.device) and kind is None:
            kind = value.type
    return kind or "cpu"
