"""Marks what Python calls to make a tensor, so that the dispatcher can tell it from what C++ code makes on its own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._device

from anydevice.patching.patches import Patches
from anydevice.sim.asked import asked
from anydevice.sim.simulation import Simulation, current

_FACTORIES = [
    "arange",
    "bartlett_window",
    "blackman_window",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_quantized",
    "empty_strided",
    "eye",
    "from_file",
    "full",
    "full_like",
    "hamming_window",
    "hann_window",
    "kaiser_window",
    "linspace",
    "logspace",
    "normal",
    "ones",
    "ones_like",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "range",
    "scalar_tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "zeros_like",
]
_METHODS = ["new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros"]
_TRANSFORMS = ["fftfreq", "rfftfreq"]


def install(patches: Patches, simulation: Simulation) -> None:
    """Wrap the functions of `torch` and `torch.fft`, and the methods of tensors, that have a `device` argument."""
    torch.utils._device._device_constructors()  # remembers the functions themselves, once: before they are wrapped
    for owner, names in ((torch, _FACTORIES), (torch.fft, _TRANSFORMS), (torch.Tensor, _METHODS)):
        for name in names:
            original = getattr(owner, name, None)
            if original is None:
                continue
            marked = _marked(original)
            patches.set(owner, name, marked) if owner is torch.Tensor else patches.everywhere(owner, name, marked)


@functools.cache
def _marked(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device").__class__ is int:  # the C++ parser asks this build's own accelerator
            kwargs["device"] = current().resolve(kwargs["device"])
        outer = asked.python
        asked.python = True
        try:
            return original(*args, **kwargs)
        finally:
            asked.python = outer

    return call
