"""Listens to a simulation and keeps what crosses between host and devices, with the line of the program that caused it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from anydevice.patching.origin import Line, current_line
from anydevice.sim.place import place_of, storage_of

if TYPE_CHECKING:
    from anydevice.sim.simulation import Simulation

TO_DEVICE, TO_HOST, BETWEEN_DEVICES, SYNCHRONISATION = "to device", "to host", "between devices", "synchronisation"

# a program that makes more events than this is described by the first of them, and the counts go on
TIMELINE_LIMIT = 200_000


@dataclass(frozen=True, slots=True)
class Event:
    """One copy or synchronisation.

    Attributes:
        kind: TO_DEVICE, TO_HOST, BETWEEN_DEVICES or SYNCHRONISATION.
        seconds: since the recording began.
        step: how many steps of an optimizer had been before.
        how: the call that synchronised (`item`), or the devices of a copy (`cpu -> cuda:0`).
        nbytes: bytes that crossed.
        pinned: the host side was in pinned memory.
        non_blocking: the program asked not to wait.
        fresh: the tensor had just been created on the host, by the line `made`.
    """

    kind: str
    line: Line | None
    seconds: float
    step: int
    how: str
    nbytes: int
    pinned: bool = False
    non_blocking: bool = False
    fresh: bool = False
    made: Line | None = None

    @property
    def waits(self) -> bool:
        """Does the host wait for the device here?

        A copy from pageable memory, or to it, waits even where the program asks it not to (CUDA driver API,
        "API synchronization behavior").
        """
        return self.kind == SYNCHRONISATION or not (self.non_blocking and self.pinned)


class Recorder:
    """Keeps the events of a simulation.

    recorder = Recorder()
    with simulate("cuda") as simulation:
        recorder.start(simulation)
        ...
        recorder.stop(simulation)
    summarise(recorder, "cuda")
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.dropped = 0
        self.optimizer_steps = 0
        self._began = time.perf_counter()
        self._hook: Any = None

    @property
    def seconds(self) -> float:
        """How long the recording has been going on."""
        return time.perf_counter() - self._began

    def start(self, simulation: Simulation) -> None:
        """Begin to listen."""
        self._began = time.perf_counter()
        simulation.observers.append(self)
        self._hook = register_optimizer_step_post_hook(self._stepped)

    def stop(self, simulation: Simulation) -> None:
        """Cease to listen."""
        simulation.observers.remove(self)
        self._hook.remove()

    def copied(self, tensor: torch.Tensor, source: torch.device, target: torch.device, *, non_blocking: bool) -> None:
        """A tensor was copied from one device to another."""
        line = current_line()
        place = place_of(tensor)
        made = place.line if place is not None else None
        if source.type == "cpu":
            kind = TO_DEVICE
        elif target.type == "cpu":
            kind = TO_HOST
        else:
            kind = BETWEEN_DEVICES
        self._keep(
            kind,
            line,
            f"{source} -> {target}",
            tensor.numel() * tensor.element_size(),
            pinned=kind == TO_DEVICE and place is not None and place.pinned,
            non_blocking=non_blocking,
            fresh=kind == TO_DEVICE and _is_fresh(tensor) and _near(made, line),
            made=made,
        )

    def created(self, tensor: torch.Tensor) -> None:
        """A factory made a tensor."""
        storage_of(tensor).fresh = True  # type: ignore[attr-defined]

    def synchronised(self, device: torch.device, how: str, nbytes: int) -> None:
        """The host waited for a device."""
        self._keep(SYNCHRONISATION, current_line(), how, nbytes)

    def _keep(self, kind: str, line: Line | None, how: str, nbytes: int, **more: Any) -> None:
        if len(self.events) >= TIMELINE_LIMIT:
            self.dropped += 1
            return
        self.events.append(Event(kind, line, self.seconds, self.optimizer_steps, how, nbytes, **more))

    def _stepped(self, *_: Any) -> None:
        self.optimizer_steps += 1


def _is_fresh(tensor: torch.Tensor) -> bool:
    """Is it all of what a factory made, and moved for the first time? Parameters are made on the host by custom."""
    if isinstance(tensor, torch.nn.Parameter):
        return False
    try:
        storage = storage_of(tensor)
    except NotImplementedError:
        return False
    fresh = getattr(storage, "fresh", False) and storage.nbytes() == tensor.numel() * tensor.element_size()
    storage.fresh = False  # type: ignore[attr-defined]
    return fresh


def _near(made: Line | None, moved: Line | None) -> bool:
    """In one function, the move no more than a few lines below: no work on the host comes between."""
    if made is None or moved is None:
        return False
    return (made.path, made.function) == (moved.path, moved.function) and 0 <= moved.number - made.number <= 5
