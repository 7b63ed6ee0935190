"""What this build of PyTorch says that it was made for: `torch.version`, `torch.backends`, NVTX."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
import torch.cuda.nvtx

from anydevice.patching.patches import Patches
from anydevice.sim.simulation import Simulation


def install(patches: Patches, simulation: Simulation) -> None:
    """Let the build be one for the world."""
    world = simulation.world
    here = world.device_type == "cuda"
    for name in ("cuda", "hip", "xpu"):
        patches.set(torch.version, name, world.versions.get(name))
    for name in ("cuda", "mps", "xpu"):
        patches.set(torch._C, f"_has_{name}", world.device_type == name)
    patches.set(torch.cuda, "_is_compiled", lambda: here)
    patches.set(torch.xpu, "_is_compiled", lambda: world.device_type == "xpu")
    patches.set(torch.backends.cuda, "is_built", lambda: here)
    patches.known(torch, {"_use_cudnn_rnn_flatten_weight": lambda: False})  # its kernel wants a real device
    patches.set(torch.backends.cudnn, "is_available", lambda: here)
    patches.set(torch.backends.cudnn, "version", lambda: 90100 if here else None)
    patches.set(torch.backends.cudnn, "is_acceptable", lambda tensor: here and tensor.is_cuda)
    if here:
        patches.set(torch.cuda.nvtx, "_nvtx", _Nvtx())


class _Nvtx(SimpleNamespace):
    """Marks for a profiler that is not there."""

    def rangePushA(self, message: str) -> int:
        return 0

    def rangePop(self) -> int:
        return 0

    def rangeStartA(self, message: str) -> int:
        return 1

    def rangeEnd(self, handle: int) -> None:
        return None

    def markA(self, message: str) -> None:
        return None

    def deviceRangeStart(self, *arguments: Any) -> object:
        return object()

    def deviceRangeEnd(self, *arguments: Any) -> None:
        return None
