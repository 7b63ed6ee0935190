"""`torch._C`: a build for the accelerator has functions there that this build may lack, and PyTorch's own modules take."""

from __future__ import annotations

from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.backends.devices import architectures
from anydevice.sim.errors import refusing
from anydevice.sim.simulation import Simulation


def install(patches: Patches, simulation: Simulation) -> None:
    """Let the functions of the accelerator be there; those that nothing here answers for refuse to be called."""
    kind = simulation.world.device_type
    if kind is None:
        return

    def missing(name: str) -> Any:
        if name.startswith(f"_{kind}_"):
            return refusing(f"torch._C.{name}")
        raise AttributeError(f"module 'torch._C' has no attribute {name!r}")

    patches.set(torch._C, "__getattr__", missing)
    if kind in ("cuda", "xpu"):
        module = getattr(torch, kind)
        patches.set(
            torch._C,
            f"_{kind}_getCurrentRawStream",
            lambda index: getattr(module.current_stream(index), f"{kind}_stream"),
        )
    if kind == "cuda":
        patches.set(torch._C, "_cuda_sleep", lambda cycles: None)
        patches.set(torch._C, "_cuda_getArchFlags", lambda: " ".join(architectures()))
