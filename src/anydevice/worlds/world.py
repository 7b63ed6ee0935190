"""What a machine can be, as data. A world knows nothing of how it is simulated."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

GIB = 2**30


@dataclass(frozen=True)
class World:
    """A machine as PyTorch sees it.

    Attributes:
        name: what a user writes, without a count (`cuda`).
        device_type: the `torch.device` type of its accelerators; None where it has none.
        count: how many of them it has.
        limit: how many of them a machine of this kind can have.
        memory: bytes of one of them.
        device_name: what it calls itself.
        capability: (major, minor) compute capability, None where the kind has none.
        multi_processor_count: its compute units, as `get_device_properties` gives them.
        missing_dtypes: names of the dtypes (`float64`) that it cannot hold.
        has_streams: whether programs can make streams on it.
        versions: what `torch.version` says there (`cuda`, `hip`, `xpu`); what is not named is None.
        collectives: `torch.distributed` back ends that its build of PyTorch brings.
        texts: error messages that differ from one kind to another, by what they are about.
    """

    name: str
    device_type: str | None = None
    count: int = 0
    limit: int = 0
    memory: int = 0
    device_name: str = ""
    capability: tuple[int, int] | None = None
    multi_processor_count: int = 0
    missing_dtypes: frozenset[str] = frozenset()
    has_streams: bool = False
    versions: dict[str, str] = field(default_factory=dict)
    collectives: tuple[str, ...] = ("gloo",)
    texts: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}:{self.count}" if self.count > 1 else self.name

    def with_count(self, count: int) -> World:
        """The same machine with `count` accelerators."""
        return replace(self, count=count)

    def with_memory(self, memory: int) -> World:
        """The same machine with accelerators of `memory` bytes."""
        return replace(self, memory=memory)
