"""`torch.device`, which alone cannot be told what `torch.device(1)` means: C++ asks the build for its accelerator."""

from __future__ import annotations

from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.simulation import Simulation, current

_Device = torch.device


class _Type(type):
    """Makes real devices and knows them: the type in C++ can be neither changed nor inherited from."""

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.device:
        index = args[0] if args else kwargs.get("index") if "type" not in kwargs else None
        if isinstance(index, int) and not isinstance(index, bool) and len(args) + len(kwargs) == 1:
            return _Device(current().world.device_type or "cpu", index)
        return _Device(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Device)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _Device)

    def __getattr__(cls, name: str) -> Any:
        return getattr(_Device, name)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is _Device

    def __hash__(cls) -> int:
        return hash(_Device)

    def __repr__(cls) -> str:
        return repr(_Device)


def install(patches: Patches, simulation: Simulation) -> None:
    """Replace `torch.device` where there are devices; without them PyTorch itself says so."""
    if simulation.devices:
        stand_in = _Type("device", (), {"__module__": "torch", "__doc__": _Device.__doc__, "__slots__": ()})
        patches.set(torch, "device", stand_in)
