"""Streams and events on every device. Where a device has one queue only, they are there and change nothing."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from anydevice.runtime.accelerator import current_device, synchronize
from anydevice.runtime.backends import backend_of
from anydevice.runtime.device import DeviceLike, normalised


def stream(device: DeviceLike | None = None) -> Any:
    """A new stream of a device (`torch.cuda.Stream`), to be used as `with anydevice.use_stream(made):`.

    None where the device has one queue only (CPU, MPS); `use_stream(None)` changes nothing.
    """
    place = current_device() if device is None else normalised(device)
    made = getattr(backend_of(place.type).module, "Stream", None)
    return made(device=place) if made is not None and place.type not in ("cpu", "mps") else None


def use_stream(chosen: Any) -> AbstractContextManager[Any]:
    """Queue what is called inside on a stream that `stream` has made; on the usual one for None."""
    if chosen is None:
        return nullcontext()
    context: AbstractContextManager[Any] = backend_of(chosen.device.type).module.stream(chosen)
    return context


class Event:
    """A moment in a device's queue, for measuring: `record` it, and ask `elapsed_time` (ms) of another.

    CUDA, XPU and the devices of plugins have events of their own. Elsewhere the device is waited for and the clock
    read: the CPU has no queue, and events of MPS can hang (pytorch#196395).
    """

    def __init__(self, device: DeviceLike | None = None) -> None:
        self.device = current_device() if device is None else normalised(device)
        native = getattr(backend_of(self.device.type).module, "Event", None)
        queued = native is not None and self.device.type not in ("cpu", "mps")
        self._native: Any = native(enable_timing=True) if native is not None and queued else None
        self._moment: float | None = None

    def record(self) -> None:
        """Mark this moment in the current stream of the device."""
        if self._native is not None:
            self._native.record(getattr(torch, self.device.type).current_stream(self.device))
        else:
            synchronize(self.device)
            self._moment = time.perf_counter()

    def synchronize(self) -> None:
        """Wait until the device has come to this moment."""
        if self._native is not None:
            self._native.synchronize()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this moment to `end`, which is waited for.

        Raises:
            RuntimeError: one of them has not been recorded.
        """
        if self._native is not None:
            end.synchronize()
            return float(self._native.elapsed_time(end._native))
        if self._moment is None or end._moment is None:
            raise RuntimeError("elapsed_time needs two events that were recorded; call record() on both first")
        return (end._moment - self._moment) * 1e3


def event(device: DeviceLike | None = None) -> Event:
    """A new event of a device; by default of the current one."""
    return Event(device)
