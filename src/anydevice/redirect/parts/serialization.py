"""`torch.load`: tensors saved on CUDA arrive on the device that is there, whatever `map_location` says."""

from __future__ import annotations

from typing import Any

import torch
import torch.serialization

from anydevice.patching.patches import Patches
from anydevice.redirect.redirection import Redirection


def install(patches: Patches, redirection: Redirection) -> None:
    """Redirect each storage's location where PyTorch restores it; `torch.load` itself stays."""
    restore, send = torch.serialization.default_restore_location, redirection.send
    load = torch.serialization.load
    jit_load = torch.jit.load

    def default_restore_location(storage: Any, location: Any) -> Any:
        if isinstance(location, str) and location.startswith("cuda"):
            location = str(send(location, "torch.load"))
        return restore(storage, location)

    def mapped(map_location: Any) -> Any:
        return (
            {key: str(send(value, "torch.load")) for key, value in map_location.items()}
            if isinstance(map_location, dict)
            else send(map_location, "torch.load")
        )

    def load_(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        return load(f, mapped(map_location), *args, **kwargs)

    def jit(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        return jit_load(f, redirection.device() if map_location is None else mapped(map_location), *args, **kwargs)

    patches.everywhere(torch.serialization, "default_restore_location", default_restore_location)
    patches.everywhere(torch.serialization, "load", load_)
    patches.everywhere(torch.jit, "load", jit)
