"""The memory of one simulated device, counted as PyTorch's caching allocator counts it."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

BLOCK = 512  # kMinBlockSize of c10/cuda/CUDACachingAllocator.h: every allocation is rounded up to it


@dataclass
class Ledger:
    """What is allocated on a device now, at most, and in all."""

    device: torch.device
    capacity: int
    allocated: int = 0
    peak: int = 0
    allocations: int = 0
    frees: int = 0
    requested: int = field(default=0)

    def allocate(self, nbytes: int) -> None:
        """Count a new storage of `nbytes`.

        Raises:
            torch.OutOfMemoryError: the device has no room for it.
        """
        size = -(-nbytes // BLOCK) * BLOCK
        if self.allocated + size > self.capacity:
            self.exhausted(nbytes)
        self.allocated += size
        self.requested += nbytes
        self.allocations += 1
        if self.allocated > self.peak:
            self.peak = self.allocated

    def free(self, nbytes: int) -> None:
        """Count the end of a storage of `nbytes`."""
        self.allocated -= -(-nbytes // BLOCK) * BLOCK
        self.requested -= nbytes
        self.frees += 1

    def exhausted(self, nbytes: int) -> None:
        """Raise the error of a device that has no room for `nbytes`."""
        raise torch.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {nbytes / 2**20:.2f} MiB. GPU {self.device.index} has a total "
            f"capacity of {self.capacity / 2**30:.2f} GiB of which {(self.capacity - self.allocated) / 2**20:.2f} MiB is free."
        )
