"""The operators that need a rule of their own, and the walk that finds them: a new rule touches one file."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from anydevice.sim.plan import Handler

_handlers: dict[str, Handler] = {}


def operator(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler for operators by name: `aten::copy_` for all its overloads, `aten::index.Tensor` for one,
    `aten::_foreach_*` for all that begin so.

    Names that this PyTorch lacks are ignored: operators come and go with its versions.
    """

    def register(handler: Handler) -> Handler:
        for name in names:
            if name in _handlers:
                raise ValueError(f"two rules for {name}: {_handlers[name].__name__} and {handler.__name__}")
            _handlers[name] = handler
        return handler

    return register


def handler_of(func: torch._ops.OpOverload) -> Handler | None:
    """The rule for `func`, that of the very overload before that of the operator."""
    _load()
    name: str = func._schema.name
    overload = func._schema.overload_name
    exact = (_handlers.get(f"{name}.{overload}") if overload else None) or _handlers.get(name)
    if exact is not None:
        return exact
    return next((h for key, h in _handlers.items() if key.endswith("*") and name.startswith(key[:-1])), None)


def _load() -> None:
    if _handlers:
        return
    import anydevice.sim.operators as package

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
