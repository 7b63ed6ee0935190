"""Fake tensors, which `torch.export` and tracers compute with: they say where they are, but not to C++.

Autograd asks for the streams of the device that a tensor is on, and ends the process where the build has no such
device: to C++ a fake tensor of a simulated device is on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses import fake_tensor

from anydevice.patching.patches import Patches
from anydevice.sim.place import CPU
from anydevice.sim.simulation import Simulation

_QUESTION = torch.ops.prim.device.default  # how C++ asks; Python reads the attribute
_dispatch: Callable[..., Any] = vars(fake_tensor.FakeTensor)["__torch_dispatch__"].__func__
_under_mode: Callable[..., Any] = fake_tensor._DISPATCH_META_HANDLERS[_QUESTION]


def install(patches: Patches, simulation: Simulation) -> None:
    """Answer C++ where there are simulated devices, with a mode of fake tensors active and without."""
    kind = simulation.world.device_type
    if kind is None:
        return

    def dispatch(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = _dispatch(cls, func, types, args, kwargs or {})
        return CPU if func is _QUESTION and answer.type == kind else answer

    def under_mode(args: Any) -> Any:
        answer = _under_mode(args)
        return CPU if answer.type == kind else answer

    patches.set(fake_tensor.FakeTensorMode, "avoid_device_init", property(lambda self: True))
    patches.set(fake_tensor.FakeTensor, "__torch_dispatch__", classmethod(dispatch))
    patches.item(fake_tensor._DISPATCH_META_HANDLERS, _QUESTION, under_mode)
