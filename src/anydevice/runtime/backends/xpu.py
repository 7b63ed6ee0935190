"""Intel GPUs."""

from __future__ import annotations

import torch

from anydevice.runtime.backends.backend import Backend, Memory


class Xpu(Backend):
    """Intel GPUs."""

    kind = "xpu"
    uploads_behind = True

    def built(self) -> bool:
        """Whether this PyTorch was built for SYCL."""
        return getattr(torch.version, "xpu", None) is not None or bool(torch.xpu._is_compiled())

    def count(self) -> int:
        """Those that SYCL shows. Counting them does not start the runtime (torch/xpu/__init__.py)."""
        return torch.xpu.device_count() if self.built() else 0

    def started(self) -> bool:
        """Whether the runtime of this process has been started."""
        return bool(torch.xpu.is_initialized())

    def memory(self, index: int) -> Memory | None:
        """As the driver sees it; None before PyTorch 2.6 and on drivers that do not tell."""
        ask = getattr(torch.xpu, "mem_get_info", None)
        try:
            free, total = ask(index) if ask is not None else (None, None)
        except RuntimeError:  # "The device ... doesn't support querying the available free memory"
            return None
        return None if free is None or total is None else Memory(int(free) + _cached(index), int(total))


def _cached(index: int) -> int:
    """What PyTorch's allocator holds without using it."""
    return max(0, torch.xpu.memory_reserved(index) - torch.xpu.memory_allocated(index))
