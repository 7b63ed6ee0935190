"""`torch.cuda`: which devices there are, which is the current one, and what they can do."""

from __future__ import annotations

import os
import platform
from types import SimpleNamespace
from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.redirect import who_asks
from anydevice.redirect.redirection import Redirection

# what programs ask for before they choose a dtype or a kernel: an Ampere GPU, the first with bfloat16
_CAPABILITY = (8, 0)


def install(patches: Patches, redirection: Redirection) -> None:
    """Let `torch.cuda` answer for the devices that are there."""
    faked, native = redirection.faked, getattr(torch, redirection.kind)

    def is_available() -> bool:
        asker = who_asks.library()
        if asker is None:
            return bool(faked("torch.cuda.is_available", True))
        if asker != "torch":
            faked(f"torch.cuda.is_available, asked by {asker}, which {who_asks.LIBRARIES[asker]},", False)
        return False

    def device_count() -> int:
        return int(faked("torch.cuda.device_count", redirection.count)) if who_asks.library() is None else 0

    def current_device() -> int:
        return int(native.current_device()) if redirection.kind == "xpu" else 0

    def set_device(device: Any) -> None:
        if redirection.kind == "xpu":
            torch.xpu.set_device(redirection.send(device, "torch.cuda.set_device"))

    def synchronize(device: Any = None) -> None:
        native.synchronize()

    def memory() -> int:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0

    def get_device_name(device: Any = None) -> str:
        name = torch.xpu.get_device_name() if redirection.kind == "xpu" else platform.processor() or platform.machine()
        return str(faked("torch.cuda.get_device_name", name))

    def get_device_properties(device: Any = None) -> SimpleNamespace:
        major, minor = _CAPABILITY
        properties = SimpleNamespace(
            name=get_device_name(),
            total_memory=memory(),
            major=major,
            minor=minor,
            multi_processor_count=os.cpu_count() or 1,
            warp_size=32,
            max_threads_per_multi_processor=2048,
            is_integrated=1,
            is_multi_gpu_board=0,
        )
        faked("torch.cuda.get_device_properties", properties.name)
        return properties

    class device:
        """`with torch.cuda.device(1):`."""

        def __init__(self, device: Any) -> None:
            self.idx, self.prev_idx = device, -1

        def __enter__(self) -> None:
            if redirection.kind == "xpu" and self.idx is not None:
                self.prev_idx = current_device()
                set_device(self.idx)

        def __exit__(self, *exception: object) -> None:
            if self.prev_idx >= 0:
                torch.xpu.set_device(self.prev_idx)

    answers: dict[str, Any] = {
        "is_available": is_available,
        "device_count": device_count,
        "current_device": current_device,
        "set_device": set_device,
        "synchronize": synchronize,
        "get_device_name": get_device_name,
        "get_device_properties": get_device_properties,
        "get_device_capability": lambda device=None: faked("torch.cuda.get_device_capability", _CAPABILITY),
        "is_bf16_supported": lambda including_emulation=True: faked("torch.cuda.is_bf16_supported", True),
        "device": device,
        "device_of": lambda obj: device(None),
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "is_initialized": lambda: who_asks.library() is None,
        "ipc_collect": lambda: None,
        "can_device_access_peer": lambda device, peer_device: faked("torch.cuda.can_device_access_peer", False),
        "get_arch_list": lambda: [],
        "mem_get_info": lambda device=None: faked("torch.cuda.mem_get_info", (_free(memory()), memory())),
        "empty_cache": getattr(native, "empty_cache", lambda: None),
        "memory_summary": lambda device=None, abbreviated=False: faked("torch.cuda.memory_summary", ""),
        "memory_stats": lambda device=None: faked("torch.cuda.memory_stats", {}),
        "memory_snapshot": lambda *args, **kwargs: faked("torch.cuda.memory_snapshot", []),
        "set_per_process_memory_fraction": lambda fraction, device=None: None,
        "utilization": lambda device=None: faked("torch.cuda.utilization", 0),
    }
    for name in ("reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
                 "reset_accumulated_memory_stats"):  # fmt: skip
        answers[name] = lambda device=None: None
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
                 "memory_cached", "max_memory_cached"):  # fmt: skip
        real = getattr(native, name, None)
        answers[name] = real or (lambda device=None, name=name: faked(f"torch.cuda.{name}", 0))
    patches.known(torch.cuda, answers)
    patches.set(torch.cuda.nvtx, "_nvtx", _Nvtx())


class _Nvtx:
    """Marks for a profiler that is not there."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args: 0


def _free(total: int) -> int:
    if hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        return int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return total
