"""`torch.device`: a class in the place of the C type, which makes real devices and knows them."""

from __future__ import annotations

import copyreg
from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.patching.stand_in import StandIn
from anydevice.redirect.redirection import Device, Redirection


class _DeviceType(StandIn):
    redirection: Redirection

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.device:
        send = cls.redirection.send
        if len(args) == 1 and not kwargs:
            made = send(args[0], "torch.device")
            return made if made.__class__ is Device else Device(made)
        kind = args[0] if args else kwargs.get("type")
        if kind == "cuda":
            index = args[1] if len(args) > 1 else kwargs.get("index")
            device: torch.device = send("cuda" if index is None else f"cuda:{index}", "torch.device")
            return device
        if list(kwargs) == ["device"]:
            return cls(kwargs["device"])
        return Device(*args, **kwargs)


def install(patches: Patches, redirection: Redirection) -> None:
    """Replace it. Pickles go on naming `torch.device`, so that others can read them."""
    stand_in = _DeviceType(Device)
    stand_in.redirection = redirection
    patches.everywhere(torch, "device", stand_in)

    def reduce(device: torch.device) -> Any:
        return stand_in, (device.type,) if device.index is None else (device.type, device.index)

    patches.item(copyreg.dispatch_table, Device, reduce)
