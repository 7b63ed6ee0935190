"""Functions and methods that take a `device`: found by their signatures, not listed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._device

from anydevice.patching.patches import Patches
from anydevice.redirect.redirection import Redirection


def install(patches: Patches, redirection: Redirection) -> None:
    """Wrap each of them, on whatever it is an attribute of."""
    for owner, name, function in found():
        wrapped = _wrapped(function, name, redirection)
        patches.set(owner, name, wrapped) if owner is torch.Tensor else patches.everywhere(owner, name, wrapped)
    set_default = torch.set_default_device
    patches.everywhere(
        torch,
        "set_default_device",
        functools.wraps(set_default)(lambda device: set_default(redirection.send(device, "set_default_device"))),
    )


def found() -> list[tuple[Any, str, Callable[..., Any]]]:
    """(owner, name, function) of each function that makes a tensor where `device` says."""
    makers = set(torch.utils._device._device_constructors())  # remembered by PyTorch itself as they are now
    for function, stand_in in torch.overrides.get_testing_overrides().items():
        if "device" in inspect.signature(stand_in).parameters:
            makers.add(function)
    owners = (torch, torch.fft, torch.nested, torch.signal.windows, torch.Tensor)
    return [
        (owner, name, function)
        for owner in owners
        for name, function in list(vars(owner).items()) + _inherited(owner)
        if callable(function) and not isinstance(function, type) and (_is_among(function, makers) or _says_so(function))
        if name not in ("to", "cuda")
    ]


def _inherited(owner: Any) -> list[tuple[str, Any]]:
    return list(vars(torch._C.TensorBase).items()) if owner is torch.Tensor else []


def _is_among(function: Any, makers: set[Any]) -> bool:
    try:
        return function in makers
    except TypeError:
        return False


def _says_so(function: Any) -> bool:
    """Has the signature that a function of C++ documents a `device`?"""
    signature = (getattr(function, "__doc__", None) or "").strip().partition("->")[0].partition("\n\n")[0]
    return not hasattr(function, "__code__") and "device=" in signature


def _wrapped(original: Callable[..., Any], name: str, redirection: Redirection) -> Callable[..., Any]:
    send = redirection.send
    unpinned = redirection.kind == "cpu"

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            if kwargs.get("device") is not None:
                kwargs["device"] = send(kwargs["device"], name)
            if unpinned and kwargs.get("pin_memory"):
                kwargs["pin_memory"] = False  # there is nothing to pin for
        return original(*args, **kwargs)

    return call
