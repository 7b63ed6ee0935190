"""anydevice: find, rewrite and check what ties PyTorch code to one device, and one right way to handle devices in it.

The runtime's public names are loaded on first use: `import anydevice` imports no PyTorch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:  # what type checkers and editors see; the table below is what happens, and a test compares the two
    from anydevice.runtime.device import get_device as get_device
    from anydevice.runtime.move import to_device as to_device

# public name -> the module that has it, loaded when the name is first asked for
_HOMES = {
    "get_device": "anydevice.runtime.device",
    "to_device": "anydevice.runtime.move",
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
