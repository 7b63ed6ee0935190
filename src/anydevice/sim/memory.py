"""The memory of one simulated device, counted as PyTorch's caching allocator counts it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

BLOCK = 512  # kMinBlockSize of c10/core/AllocatorConfig.h: every allocation is rounded up to it
SEGMENT = 2 * 2**20  # kSmallBuffer there: what the allocator asks of the driver comes in these


@dataclass
class Ledger:
    """What is allocated on a device now, at most, and in all.

    Attributes:
        device: the device.
        capacity: its bytes.
        exhausted: the form of the error when they do not suffice.
        allocated: bytes in blocks that are in use; `peak`, the most there were.
        reserved: bytes asked of the driver; `reserved_peak`, the most there were.
        requested: bytes that tensors asked for; `requested_peak`, the most there were.
        allocations: how many blocks have been given out; `frees`, how many have come back.
        fraction: the share of the capacity that the process may use.
    """

    device: torch.device
    capacity: int
    exhausted: str
    allocated: int = 0
    peak: int = 0
    reserved: int = 0
    reserved_peak: int = 0
    requested: int = 0
    requested_peak: int = 0
    allocations: int = 0
    frees: int = 0
    total: int = 0
    failures: int = 0
    fraction: float = 1.0

    def allocate(self, nbytes: int) -> None:
        """Count a new storage of `nbytes`.

        Raises:
            torch.OutOfMemoryError: the device has no room for it.
        """
        size = -(-nbytes // BLOCK) * BLOCK
        allocated = self.allocated + size
        if allocated > self.capacity * self.fraction:
            raise self.refusal(nbytes)
        self.allocated = allocated
        self.requested += nbytes
        self.allocations += 1
        self.total += size
        if allocated > self.peak:
            self.peak = allocated
        if self.requested > self.requested_peak:
            self.requested_peak = self.requested
        if allocated > self.reserved:
            self.reserved = -(-allocated // SEGMENT) * SEGMENT
            self.reserved_peak = max(self.reserved_peak, self.reserved)

    def free(self, nbytes: int) -> None:
        """Count the end of a storage of `nbytes`."""
        self.allocated -= -(-nbytes // BLOCK) * BLOCK
        self.requested -= nbytes
        self.frees += 1

    def empty_cache(self) -> None:
        """Give back to the driver what is not in use."""
        self.reserved = -(-self.allocated // SEGMENT) * SEGMENT

    def reset_peak(self) -> None:
        """Forget the most there was."""
        self.peak, self.reserved_peak, self.requested_peak = self.allocated, self.reserved, self.requested

    def reset_totals(self) -> None:
        """Forget how much there was in all."""
        self.allocations = self.frees = self.total = self.failures = 0

    @property
    def available(self) -> int:
        """Bytes that the driver would still give."""
        return max(0, self.capacity - self.reserved)

    def refusal(self, nbytes: int) -> Exception:
        """The error of a device that has no room for `nbytes`."""
        self.failures += 1
        return torch.OutOfMemoryError(
            self.exhausted.format(
                wanted=amount(nbytes),
                index=self.device.index,
                capacity=amount(self.capacity),
                free=amount(self.available),
                allocated=amount(self.allocated),
                cached=amount(self.reserved - self.allocated),
                used=amount(self.reserved),
                allowed=amount(int(self.capacity * self.fraction)),
            )
        )


def amount(nbytes: int) -> str:
    """Bytes as the allocator writes them (`format_size` of c10/cuda/CUDACachingAllocator.cpp)."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if nbytes >= unit:
            return f"{nbytes / unit:.2f} {name}"
    return f"{nbytes} bytes"
