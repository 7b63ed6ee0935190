"""Streams, events and graphs. Where the device has none, work is done when it is asked for."""

from __future__ import annotations

import time
from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.redirect.redirection import NoCounterpart, Redirection


class Stream:
    """A stream that is always idle."""

    cuda_stream = 0
    priority = 0
    stream_id = 0

    def __init__(self, device: Any = None, priority: int = 0, **ids: Any) -> None:
        self.device = device

    def query(self) -> bool:
        """Is all work done?"""
        return True

    def synchronize(self) -> None:
        """Wait for the device."""
        torch.cuda.synchronize()

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""

    wait_stream = wait_event

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, a new one where none is given."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        return None


class Event:
    """Takes the time of the host, after the device is done where times are asked for."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self._timed, self._time = enable_timing, 0.0

    def record(self, stream: Any = None) -> None:
        """Take the time."""
        if self._timed:
            torch.cuda.synchronize()
        self._time = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """Has it happened?"""
        return True

    def synchronize(self) -> None:
        """Wait for the device."""
        torch.cuda.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another."""
        return (end_event._time - self._time) * 1000


class StreamContext:
    """`with torch.cuda.stream(s):`."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None


def install(patches: Patches, redirection: Redirection) -> None:
    """Those of XPU are real; elsewhere they are the ones above."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NoCounterpart("torch.cuda.CUDAGraph", "switch the program's CUDA graphs off; it then runs eagerly")

    def make_graphed_callables(callables: Any, *args: Any, **kwargs: Any) -> Any:
        return redirection.faked("torch.cuda.make_graphed_callables", callables)

    answers: dict[str, Any] = {
        "CUDAGraph": refuse,
        "graph": refuse,
        "make_graphed_callables": make_graphed_callables,
        "is_current_stream_capturing": lambda: False,
    }
    if redirection.kind == "xpu":
        for name in ("Stream", "Event", "StreamContext", "stream", "current_stream", "set_stream"):
            answers[name] = getattr(torch.xpu, name)
    else:
        answers |= {
            "Stream": Stream,
            "Event": Event,
            "StreamContext": StreamContext,
            "stream": StreamContext,
            "current_stream": lambda device=None: Stream(),
            "default_stream": lambda device=None: Stream(),
            "set_stream": lambda stream: None,
        }
        patches.set(torch.Tensor, "record_stream", lambda self, stream: None)
    patches.known(torch.cuda, answers)
