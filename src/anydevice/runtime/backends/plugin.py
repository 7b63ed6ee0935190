"""Devices that come with a package of their own (torch_npu, torch_mlu, habana): asked through `torch.<kind>`."""

from __future__ import annotations

from anydevice.runtime.backends.backend import Backend, Memory


class Plugin(Backend):
    """A kind of device that PyTorch knows only once its package is imported, which PyTorch does by itself since 2.5."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def built(self) -> bool:
        """Whether its package has put itself into `torch`."""
        return self.module is not None

    def count(self) -> int:
        """As its package says."""
        module = self.module
        if module is None:
            return 0
        available = getattr(module, "is_available", None)
        if available is not None and not available():
            return 0
        count = getattr(module, "device_count", None)
        return int(count()) if count is not None else 1

    def started(self) -> bool:
        """As its package says; where it does not, the driver is taken to have been started."""
        started = getattr(self.module, "is_initialized", None)
        return bool(started()) if started is not None else True

    def memory(self, index: int) -> Memory | None:
        """As its package says, if it does."""
        ask = getattr(self.module, "mem_get_info", None)
        if ask is None:
            return None
        free, total = ask(index)
        return Memory(int(free), int(total))
