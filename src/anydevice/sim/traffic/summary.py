"""What a recording says: one row per line of the program and kind of event, and how long it would take on a bus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from anydevice.patching.origin import Line
from anydevice.sim.traffic.recorder import SYNCHRONISATION, Event, Recorder

# What a copy or a synchronisation costs besides the bytes: a launch and a round trip, as commonly measured on CUDA.
LATENCY = 10e-6
# Pageable memory is staged through a pinned buffer by the host: about half the speed of the bus.
PAGEABLE = 0.5
DEFAULT_BUS = 25e9  # bytes/s that PCIe 4.0 x16 reaches of its 31.5 GB/s


@dataclass(frozen=True)
class Row:
    """Events of one kind that one line causes.

    Attributes:
        line: the line; None where no code of the user was running.
        kind: of the events.
        how: the calls or devices, the most frequent first.
        count: how many events.
        nbytes: how many bytes in all.
        pinned: how many of them from pinned memory.
        non_blocking: how many of them asked not to wait.
        waits: in how many of them the host waited.
        fresh: how many copied a tensor that had just been created on the host.
        per_step: events per training step; None where there are no steps, or the line does not repeat with them.
        seconds: estimated time on the bus.
    """

    line: Line | None
    kind: str
    how: str
    count: int
    nbytes: int
    pinned: int
    non_blocking: int
    waits: int
    fresh: int
    per_step: float | None
    seconds: float


@dataclass(frozen=True)
class Summary:
    """A whole recording.

    Attributes:
        world: what was simulated (`cuda:2`).
        bus: bytes per second that the estimate assumes.
        seconds: how long the program ran.
        steps: training steps, of optimizers; 0 where there are none.
        rows: the lines, the most expensive first.
        events: in order of time.
        dropped: events beyond the limit, which are in no row.
    """

    world: str
    bus: float
    seconds: float
    steps: int
    rows: tuple[Row, ...]
    events: tuple[Event, ...]
    dropped: int

    def total(self, kind: str) -> tuple[int, int]:
        """(count, bytes) of all events of a kind."""
        rows = [row for row in self.rows if row.kind == kind]
        return sum(row.count for row in rows), sum(row.nbytes for row in rows)

    @property
    def estimate(self) -> float:
        """Estimated seconds of all copies and synchronisations."""
        return sum(row.seconds for row in self.rows)


def summarise(recorder: Recorder, world: str, bus: float = DEFAULT_BUS) -> Summary:
    """Gather a recording by line.

    Args:
        recorder: the recording.
        world: what was simulated.
        bus: bytes per second between host and device, for the estimate of the time.
    """
    groups: dict[tuple[Line | None, str], list[Event]] = {}
    for event in recorder.events:
        groups.setdefault((event.line, event.kind), []).append(event)
    steps = recorder.optimizer_steps
    rows = [_row(line, kind, events, steps, bus) for (line, kind), events in groups.items()]
    rows.sort(key=lambda row: (-row.seconds, str(row.line)))
    return Summary(world, bus, recorder.seconds, steps, tuple(rows), tuple(recorder.events), recorder.dropped)


def cost(event: Event, bus: float) -> float:
    """Estimated seconds that an event takes."""
    if event.kind == SYNCHRONISATION:
        return LATENCY
    return LATENCY + event.nbytes / (bus if event.pinned else bus * PAGEABLE)


def _row(line: Line | None, kind: str, events: list[Event], steps: int, bus: float) -> Row:
    calls = Counter(event.how for event in events)
    return Row(
        line=line,
        kind=kind,
        how=", ".join(how for how, _ in calls.most_common()),
        count=len(events),
        nbytes=sum(event.nbytes for event in events),
        pinned=_count(event.pinned for event in events),
        non_blocking=_count(event.non_blocking for event in events),
        waits=_count(event.waits for event in events),
        fresh=_count(event.fresh for event in events),
        per_step=_per_step(events, steps),
        seconds=sum(cost(event, bus) for event in events),
    )


def _count(flags: Iterable[bool]) -> int:
    return sum(map(bool, flags))


def _per_step(events: list[Event], steps: int) -> float | None:
    """Events per step, where the line comes back in more than half of the steps."""
    if steps < 2:
        return None
    if len({event.step for event in events}) <= steps / 2:
        return None
    return len(events) / steps
