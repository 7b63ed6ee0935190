"""`torch.accelerator` for every machine: the same questions, answered on a CPU too and by every PyTorch from 2.4 on.

Where a device keeps no such account (the CPU has no cache to empty), nothing is done, and amounts are 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from anydevice.runtime.backends import Memory, accelerators, backend_of
from anydevice.runtime.device import DeviceLike, normalised

__all__ = [
    "current_device",
    "device_count",
    "empty_cache",
    "free_memory",
    "manual_seed",
    "max_memory_allocated",
    "memory_allocated",
    "memory_info",
    "reset_peak_memory_stats",
    "set_device",
    "synchronize",
]


def current_device() -> torch.device:
    """The current device of the accelerator that is there, else the CPU. Unlike `get_device`, it proves nothing."""
    for backend in accelerators():
        if backend.built() and backend.count():
            return torch.device(backend.kind, backend.current()) if backend.indexed else torch.device(backend.kind)
    return torch.device("cpu")


def device_count(kind: str | None = None) -> int:
    """How many devices of a type (`"cuda"`) are visible; by default of the accelerator that is there.

    It is 0 where there is no accelerator, and 1 for `"cpu"`. No driver is started.
    """
    if kind is not None:
        return backend_of(torch.device(kind).type).count()
    return next((count for backend in accelerators() if backend.built() and (count := backend.count())), 0)


def set_device(device: DeviceLike) -> None:
    """Make a device the current one of its kind. Nothing is done for kinds of one device, such as the CPU and MPS.

    Raises:
        ValueError: `device` names no device.
        RuntimeError: there is no device of that index.
    """
    wanted = normalised(device)
    chosen = getattr(backend_of(wanted.type).module, "set_device", None)
    if wanted.type != "cpu" and chosen is not None:
        chosen(wanted.index)


def synchronize(device: DeviceLike | None = None) -> None:
    """Wait until all that has been queued on a device is done; by default on the current one. On the CPU it is."""
    place = _place(device)
    wait = _of(place, "synchronize")
    if wait is not None:
        wait() if place.type == "mps" else wait(place)


def empty_cache() -> None:
    """Give back what the allocator of the accelerator holds and does not use."""
    place = current_device()
    release = _of(place, "empty_cache")
    if release is not None:
        release()


def memory_allocated(device: DeviceLike | None = None) -> int:
    """Bytes of a device that are taken by this process's tensors."""
    return _amount(device, "memory_allocated", "current_allocated_memory")


def max_memory_allocated(device: DeviceLike | None = None) -> int:
    """The most that `memory_allocated` has been, since the start or `reset_peak_memory_stats`.

    MPS keeps no such record; what is taken now is given instead.
    """
    return _amount(device, "max_memory_allocated", "current_allocated_memory")


def reset_peak_memory_stats(device: DeviceLike | None = None) -> None:
    """Begin the record of `max_memory_allocated` anew."""
    place = _place(device)
    reset = _of(place, "reset_peak_memory_stats")
    if reset is not None:
        reset(place)


def memory_info(device: DeviceLike | None = None) -> Memory:
    """Bytes free and in all, as the driver of the device sees them, other processes' use included.

    What PyTorch's allocator holds and does not use counts as free. For the CPU it is the machine's memory, within the
    limit of the control group that a container has.

    Raises:
        RuntimeError: the driver cannot tell.
    """
    place = _place(device)
    memory = backend_of(place.type).memory(place.index or 0)
    if memory is None:
        raise RuntimeError(f"the free memory of {place} cannot be told: its driver gives no answer")
    return memory


def free_memory(device: DeviceLike | None = None) -> int:
    """Bytes that could still be allocated on a device. See `memory_info`."""
    return memory_info(device).free


def manual_seed(seed: int) -> torch.Generator:
    """Seed the generators of the CPU and of every device, which `torch.manual_seed` does. Returns that of the CPU."""
    return torch.manual_seed(seed)


def _place(device: DeviceLike | None) -> torch.device:
    return current_device() if device is None else normalised(device)


def _of(place: torch.device, *names: str) -> Callable[..., Any] | None:
    """The first of these functions that the module of the device has; None for the CPU and a driver not started."""
    backend = backend_of(place.type)
    if place.type in ("cpu", "meta") or not backend.started():
        return None  # nothing has been queued, allocated or cached
    return next((found for name in names if (found := getattr(backend.module, name, None)) is not None), None)


def _amount(device: DeviceLike | None, *names: str) -> int:
    place = _place(device)
    ask = _of(place, *names)
    if ask is None:
        return 0
    return int(ask() if place.type == "mps" else ask(place))
