"""`torch.accelerator`: the devices of the world by the name that all kinds share."""

from __future__ import annotations

from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.backends import streams
from anydevice.sim.backends.devices import exchange_device, index_of, set_device, synchronize
from anydevice.sim.simulation import Simulation


class device_index:
    """`with torch.accelerator.device_index(1):`; does nothing for None."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx is not None:
            self.prev_idx = exchange_device(self.idx)

    def __exit__(self, *exception: object) -> None:
        if self.idx is not None:
            exchange_device(self.prev_idx)


def install(patches: Patches, simulation: Simulation) -> None:
    """Let it answer for the world's devices. Where there are none, what the CPU build of PyTorch says is right."""
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None:
        return
    kind = simulation.world.device_type

    def current_accelerator(check_available: bool = False) -> torch.device | None:
        return None if kind is None else torch.device(kind)

    answers: dict[str, Any] = {
        "is_available": lambda: kind is not None,
        "device_count": lambda: len(simulation.devices),
        "current_accelerator": current_accelerator,
    }
    if hasattr(torch._C, "_get_accelerator"):  # with nothing to be found, it says `cpu`
        patches.set(torch._C, "_get_accelerator", lambda check=None: torch.device(kind or "cpu"))
    if kind is None:
        patches.set(torch._C, "_accelerator_getAccelerator", lambda: None)
        answers |= dict.fromkeys(
            ("synchronize", "current_device_index", "current_stream", "set_device_index", "empty_cache"),
            _none_available,
        )
    else:
        answers |= {
            "current_device_index": lambda: simulation.current_index,
            "current_device_idx": lambda: simulation.current_index,
            "set_device_index": set_device,
            "set_device_idx": set_device,
            "device_index": device_index,
            "current_stream": lambda device=None: streams.current_stream(device),
            "set_stream": streams.set_stream,
            "synchronize": synchronize,
            "get_device_capability": lambda device=None: {"supported_dtypes": _dtypes(simulation, index_of(device))},
        }
    patches.known(accelerator, answers)


def _none_available(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("Cannot access accelerator device when none is available.")


def _dtypes(simulation: Simulation, index: int) -> set[torch.dtype]:
    names = [
        "float32",
        "float64",
        "float16",
        "bfloat16",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "bool",
        "complex64",
        "complex128",
    ]
    return {getattr(torch, name) for name in names if name not in simulation.world.missing_dtypes}
