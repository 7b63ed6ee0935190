"""Streams and events. All work is done when it is asked for, so that a stream is always idle and an event has happened."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.errors import NotSimulated
from anydevice.sim.place import device_of
from anydevice.sim.simulation import Simulation, current

_ids = itertools.count(1)
_current = threading.local()


class Stream:
    """`torch.Stream`, and what `torch.cuda.Stream` and `torch.xpu.Stream` derive from."""

    kind: str | None = None

    def __init__(self, device: Any = None, *, priority: int = 0, **ids: Any) -> None:
        simulation = current()
        if not simulation.world.has_streams:
            raise RuntimeError(f"the world '{simulation.world}' has no streams")
        if "stream_ptr" in ids:
            raise NotSimulated("streams of other libraries")
        self.device = simulation.resolve(
            self.kind or simulation.world.device_type or "cuda" if device is None else device
        )
        self.priority = priority
        self.stream_id = ids["stream_id"] if "stream_id" in ids else next(_ids)
        self._outer: list[Stream] = []

    @classmethod
    def priority_range(cls) -> tuple[int, int]:
        """The least and the greatest priority."""
        return 0, -5

    @property
    def device_index(self) -> int:
        """The index of its device."""
        return int(self.device.index)

    @property
    def device_type(self) -> int:
        """The number of the device type, as C++ counts them."""
        return {"cuda": 1, "xpu": 12}[self.device.type]

    @property
    def cuda_stream(self) -> int:
        """The handle; 0 is the default stream."""
        return self.stream_id

    sycl_queue = cuda_stream

    def is_capturing(self) -> bool:
        """Does a graph keep what runs on it?"""
        return False

    def query(self) -> bool:
        """Is all work done?"""
        return True

    def synchronize(self) -> None:
        """Wait for all work."""
        current().synchronised(self.device, "Stream.synchronize")

    def wait_event(self, event: Event) -> None:
        """Let later work wait for an event."""

    def wait_stream(self, stream: Stream) -> None:
        """Let later work wait for another stream."""

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, a new one where none is given."""
        event = event if event is not None else Event()
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        self._outer.append(current_stream())
        set_stream(self)
        return self

    def __exit__(self, *exception: object) -> None:
        set_stream(self._outer.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device, self.stream_id) == (other.device, other.stream_id)

    def __hash__(self) -> int:
        return hash((self.device, self.stream_id))

    def __repr__(self) -> str:
        return f"<torch.{self.device.type}.Stream device={self.device} {self.device.type}_stream={self.stream_id:#x}>"


class Event:
    """`torch.Event`, and what `torch.cuda.Event`, `torch.xpu.Event` and `torch.mps.Event` derive from."""

    def __init__(
        self, device: Any = None, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        if isinstance(device, bool):  # the back ends' own events begin with `enable_timing`
            device, enable_timing = None, device
        self.device = current().resolve(current().world.device_type or "cuda" if device is None else device)
        self._timed = enable_timing
        self._time: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Take the time."""
        self._time = time.perf_counter()

    def wait(self, stream: Stream | None = None) -> None:
        """Let later work of the stream wait for this."""

    def query(self) -> bool:
        """Has it happened?"""
        return True

    def synchronize(self) -> None:
        """Wait until it has happened."""
        current().synchronised(self.device, "Event.synchronize")

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another: of this machine's CPU."""
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._time is None or end_event._time is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event._time - self._time) * 1000

    def ipc_handle(self) -> bytes:
        """Not simulated."""
        raise NotSimulated("events shared between processes")

    from_ipc_handle = classmethod(lambda cls, *handle: cls.ipc_handle(None))  # type: ignore[arg-type]


class CudaStream(Stream):
    """`torch.cuda.Stream`."""

    kind = "cuda"


class XpuStream(Stream):
    """`torch.xpu.Stream`."""

    kind = "xpu"


class StreamContext:
    """`with torch.cuda.stream(s):`; does nothing for None."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *exception: object) -> None:
        if self.stream is not None:
            self.stream.__exit__()


def default_stream(device: Any = None) -> Stream:
    """The default stream of a device."""
    simulation = current()
    kind = simulation.world.device_type or "cuda"
    made = {"cuda": CudaStream, "xpu": XpuStream}.get(kind, Stream)
    return made(kind if device is None else device, stream_id=0)


def current_stream(device: Any = None) -> Stream:
    """The stream of this thread on a device."""
    stream = default_stream(device)
    held: Stream = _streams().get(stream.device, stream)
    return held


def set_stream(stream: Stream | None) -> None:
    """Make a stream that of this thread on its device, and the device the current one."""
    if stream is not None:
        current().current_index = stream.device_index
        _streams()[stream.device] = stream


def _streams() -> dict[torch.device, Stream]:
    held: dict[torch.device, Stream] | None = getattr(_current, "streams", None)
    if held is None:
        held = _current.streams = {}
    return held


def record_stream(self: torch.Tensor, stream: Stream) -> None:
    """`torch.Tensor.record_stream`: the memory is not reused before the stream is done."""
    if device_of(self).type == "cpu":
        raise NotImplementedError(
            "Could not run 'aten::record_stream' with arguments from the 'CPU' backend. This could be because the "
            "operator doesn't exist for this backend"
        )


def external_stream(*args: Any, **kwargs: Any) -> Stream:
    """`get_stream_from_external` and `ExternalStream`."""
    raise NotSimulated("streams of other libraries")


def install(patches: Patches, simulation: Simulation) -> None:
    """Replace streams and events, generic ones and those of the back end."""
    _streams().clear()
    kind = simulation.world.device_type
    patches.set(torch.Tensor, "record_stream", record_stream)
    if kind is None:
        return
    patches.everywhere(torch, "Event", Event)
    if kind == "mps":
        patches.set(torch.mps, "Event", Event)
        patches.set(torch.mps.event, "Event", Event)
        return
    patches.everywhere(torch, "Stream", Stream)
    module = getattr(torch, kind)
    own = {
        "Stream": CudaStream if kind == "cuda" else XpuStream,
        "Event": Event,
        "ExternalStream": external_stream,
        "get_stream_from_external": external_stream,
        "StreamContext": StreamContext,
        "stream": StreamContext,
        "current_stream": current_stream,
        "default_stream": default_stream,
        "set_stream": set_stream,
    }
    patches.known(module, own)
    patches.set(module, "is_current_stream_capturing", lambda: False)
