"""anydevice: find, rewrite and check what ties PyTorch code to one device, and one right way to handle devices in it.

The runtime's public names are loaded on first use: `import anydevice` imports no PyTorch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:  # what type checkers and editors see; the table below is what happens, and a test compares the two
    from anydevice.runtime.accelerator import current_device as current_device
    from anydevice.runtime.accelerator import device_count as device_count
    from anydevice.runtime.accelerator import empty_cache as empty_cache
    from anydevice.runtime.accelerator import free_memory as free_memory
    from anydevice.runtime.accelerator import manual_seed as manual_seed
    from anydevice.runtime.accelerator import max_memory_allocated as max_memory_allocated
    from anydevice.runtime.accelerator import memory_allocated as memory_allocated
    from anydevice.runtime.accelerator import memory_info as memory_info
    from anydevice.runtime.accelerator import reset_peak_memory_stats as reset_peak_memory_stats
    from anydevice.runtime.accelerator import set_device as set_device
    from anydevice.runtime.accelerator import synchronize as synchronize
    from anydevice.runtime.amp import autocast as autocast
    from anydevice.runtime.amp import grad_scaler as grad_scaler
    from anydevice.runtime.choice import DeviceUnavailable as DeviceUnavailable
    from anydevice.runtime.device import get_device as get_device
    from anydevice.runtime.dispatch import dispatch as dispatch
    from anydevice.runtime.move import to_device as to_device
    from anydevice.runtime.required import gpu_required as gpu_required
    from anydevice.runtime.streams import event as event
    from anydevice.runtime.streams import stream as stream
    from anydevice.runtime.streams import use_stream as use_stream

# public name -> the module that has it, loaded when the name is first asked for
_HOMES = {
    "autocast": "anydevice.runtime.amp",
    "current_device": "anydevice.runtime.accelerator",
    "device_count": "anydevice.runtime.accelerator",
    "DeviceUnavailable": "anydevice.runtime.choice",
    "dispatch": "anydevice.runtime.dispatch",
    "empty_cache": "anydevice.runtime.accelerator",
    "event": "anydevice.runtime.streams",
    "free_memory": "anydevice.runtime.accelerator",
    "get_device": "anydevice.runtime.device",
    "gpu_required": "anydevice.runtime.required",
    "grad_scaler": "anydevice.runtime.amp",
    "manual_seed": "anydevice.runtime.accelerator",
    "max_memory_allocated": "anydevice.runtime.accelerator",
    "memory_allocated": "anydevice.runtime.accelerator",
    "memory_info": "anydevice.runtime.accelerator",
    "reset_peak_memory_stats": "anydevice.runtime.accelerator",
    "set_device": "anydevice.runtime.accelerator",
    "stream": "anydevice.runtime.streams",
    "synchronize": "anydevice.runtime.accelerator",
    "to_device": "anydevice.runtime.move",
    "use_stream": "anydevice.runtime.streams",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    """Load a public name's module, and keep the name so that it costs nothing from then on (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'anydevice' has no attribute '{name}'")
    module = importlib.import_module(home)
    found = module if home == f"anydevice.{name}" else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
