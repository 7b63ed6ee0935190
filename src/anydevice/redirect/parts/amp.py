"""Mixed precision: contexts and scalers for CUDA are those of the device that is there."""

from __future__ import annotations

from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.redirect.redirection import Redirection


def install(patches: Patches, redirection: Redirection) -> None:
    """Redirect `__init__`, so that classes stay what they are and subclasses of them work."""
    kind, send = redirection.kind, redirection.send
    enter, scaler = torch.autocast.__init__, torch.amp.GradScaler.__init__

    def autocast(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        if isinstance(device_type, str) and device_type == "cuda":
            device_type = send(device_type, "torch.autocast").type
        enter(self, device_type, *args, **kwargs)

    def grad_scaler(self: Any, device: str = "cuda", *args: Any, **kwargs: Any) -> None:
        if device == "cuda":
            device = send(device, "GradScaler").type
        scaler(self, device, *args, **kwargs)

    patches.set(torch.autocast, "__init__", autocast)
    patches.set(torch.amp.GradScaler, "__init__", grad_scaler)
    patches.known(
        torch,
        {
            "get_autocast_gpu_dtype": lambda: torch.get_autocast_dtype(kind),
            "set_autocast_gpu_dtype": lambda dtype: torch.set_autocast_dtype(kind, dtype),
        },
    )
