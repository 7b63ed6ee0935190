"""The GPU of an Apple Silicon Mac."""

from __future__ import annotations

import torch

from anydevice.runtime.backends.backend import Backend, Memory


class Mps(Backend):
    """The GPU of an Apple Silicon Mac. It shares the machine's memory.

    Copies are waited for in both directions: a copy in the background can read a source that is gone already
    (pytorch#189690, pytorch#139550, open in 2026).
    """

    kind = "mps"
    missing = frozenset({torch.float64, torch.complex128})

    def built(self) -> bool:
        """Whether this PyTorch was built for Metal."""
        return bool(torch.backends.mps.is_built())

    def count(self) -> int:
        """One on macOS 14 (12.3 for older PyTorch) or later on Apple Silicon."""
        return int(torch.backends.mps.is_available())

    def memory(self, index: int) -> Memory | None:
        """What Metal recommends as the most, less what its driver has given this process.

        Metal does not say what other programs use.
        """
        total = int(torch.mps.recommended_max_memory())
        cached = torch.mps.driver_allocated_memory() - torch.mps.current_allocated_memory()
        return Memory(max(0, total - int(torch.mps.driver_allocated_memory()) + max(0, int(cached))), total)

    def current(self) -> int:
        """The only one."""
        return 0
