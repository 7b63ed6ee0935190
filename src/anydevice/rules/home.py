"""The places where a value can live, how they combine, and the question on which the analysis turns: `Homes.of`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import Enum

from tree_sitter import Node

from anydevice.rules.program import Program
from anydevice.rules.site import Context


class Home(Enum):
    """What is known of a value."""

    CPU = "a tensor on the CPU"
    SCALAR = "a 0-dim tensor on the CPU, which may meet tensors of any device"
    DEVICE = "a tensor (or whatever has `.to`) that was moved to the chosen device"
    MODULE = "a module on the CPU"
    MOVED_MODULE = "a module that was moved"
    STATELESS = "a module without tensors of its own"
    LOADER = "an iterable of CPU tensors"
    PLACED = "a tensor that was put on a device, no telling which"
    OTHER = "no tensor at all"


TENSORS = frozenset({Home.CPU, Home.SCALAR, Home.DEVICE, Home.PLACED})

Env = dict[tuple[int, str], "Home | None"]


class Homes(Program, ABC):
    """What the parts of the analysis ask of each other; `active` are the parameters whose arguments are looked at."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.active: set[tuple[int, str]] = set()

    @abstractmethod
    def of(self, node: Node | None, env: Env | None = None, depth: int = 0) -> Home | None:
        """The home of the value of `node`; None when unknown. `env` says where the parameters of functions live."""


def together(homes: Iterable[Home | None]) -> Home | None:
    """Where the result of an operation on several values lives."""
    found = list(homes)
    for home in (Home.DEVICE, Home.PLACED, Home.CPU, Home.SCALAR):
        if home in found:
            return home if home is not Home.SCALAR or None not in found else None
    if found and all(home is Home.OTHER for home in found):
        return Home.OTHER
    return next((home for home in found if home in (Home.MODULE, Home.MOVED_MODULE)), None)


def either(homes: list[Home | None]) -> Home | None:
    """What is known of a value that may be any of several: moved if one is, else what all agree on."""
    for home in (Home.DEVICE, Home.PLACED, Home.MOVED_MODULE):
        if home in homes:
            return home
    known = [home for home in homes if home is not Home.OTHER]
    return known[0] if known and len(set(known)) == 1 else (Home.OTHER if homes and not known else None)
