"""NVIDIA GPUs, and AMD's, which PyTorch calls `cuda` too."""

from __future__ import annotations

import re

import torch

from anydevice.runtime.backends import nvml
from anydevice.runtime.backends.backend import Backend, Memory


class Cuda(Backend):
    """NVIDIA and AMD GPUs. Asking does not start CUDA, after which no forked child could use it."""

    kind = "cuda"
    uploads_behind = True

    def built(self) -> bool:
        """Whether this PyTorch was built for CUDA or ROCm."""
        return bool(torch.backends.cuda.is_built())

    def count(self) -> int:
        """As NVML or amdsmi says within CUDA_VISIBLE_DEVICES, and CUDA itself only where they are missing."""
        return torch.cuda.device_count() if self.built() else 0

    def started(self) -> bool:
        """Whether CUDA has been started in this process."""
        return bool(torch.cuda.is_initialized())

    def unusable(self, index: int) -> str | None:
        """Whether its compute capability is one that this PyTorch was compiled for."""
        if torch.version.hip is not None:
            return None  # the architecture of an AMD GPU is only known once HIP has been started
        capability, compiled = self._capability(index), self._compiled()
        if capability is None or not compiled or runs(capability, compiled):
            return None
        return (
            f"its compute capability {capability[0]}.{capability[1]} is none of those that this PyTorch was compiled "
            f"for ({' '.join(compiled)})"
        )

    def memory(self, index: int) -> Memory | None:
        """As the driver sees it, with what PyTorch's allocator holds and does not use counted as free."""
        if self.started():
            free, total = torch.cuda.mem_get_info(index)
            cached = torch.cuda.memory_reserved(index) - torch.cuda.memory_allocated(index)
            return Memory(int(free) + max(0, cached), int(total))
        gpus = None if torch.version.hip is not None else nvml.visible()
        if gpus is not None and index < len(gpus):
            return Memory(gpus[index].free, gpus[index].total)
        free, total = torch.cuda.mem_get_info(index)  # starts CUDA: nothing else can tell
        return Memory(int(free), int(total))

    def _capability(self, index: int) -> tuple[int, int] | None:
        gpus = None if self.started() else nvml.visible()
        if gpus is not None and index < len(gpus):
            return gpus[index].capability
        return torch.cuda.get_device_capability(index) if self.started() else None

    def _compiled(self) -> list[str]:
        flags = getattr(torch._C, "_cuda_getArchFlags", None)  # get_arch_list starts CUDA before PyTorch 2.7
        return list((flags() or "").split()) if flags is not None else list(torch.cuda.get_arch_list())


def runs(capability: tuple[int, int], compiled: list[str]) -> bool:
    """Whether a GPU of this compute capability runs code compiled for these architectures (`sm_80`, `compute_90`).

    Machine code runs on the same major version from its minor one on, PTX on all that are newer (NVIDIA's CUDA
    programming guide, "Binary Compatibility" and "PTX Compatibility"). Code for `sm_90a` runs on that one only.
    """
    for name in compiled:
        match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", name)
        if match is None:
            continue
        major, minor = int(match[2]), int(match[3])
        if match[4] == "a":
            fits = capability == (major, minor)
        elif match[1] == "sm" or match[4]:
            fits = capability[0] == major and capability[1] >= minor
        else:
            fits = capability >= (major, minor)
        if fits:
            return True
    return False
