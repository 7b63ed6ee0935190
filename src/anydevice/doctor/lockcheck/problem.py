"""What is wrong with a file, in one place of it, and the registry of the judges that say so."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from anydevice.doctor.lockcheck.listing import Listing


@dataclass(frozen=True)
class Problem:
    """One finding. `sure` is certain, likely or unknown; a note is worth knowing, but breaks nothing."""

    code: str
    path: Path
    line: int
    message: str
    mend: str
    source: str
    sure: str = "certain"
    note: bool = False


@dataclass(frozen=True)
class Intent:
    """What the file is meant for: a variant or a family such as `cuda` (None: not said), and the Python to install."""

    variant: str | None = None
    python: str | None = None


Judge = Callable[[Listing, Intent], Iterator[Problem]]
_judges: dict[str, Judge] = {}


def judge(name: str) -> Callable[[Judge], Judge]:
    """Register a judge; its module in `judging` is found by walking that package."""

    def register(function: Judge) -> Judge:
        _judges[name] = function
        return function

    return register


@cache
def judges() -> tuple[Judge, ...]:
    """All judges, by name."""
    package = importlib.import_module("anydevice.doctor.lockcheck.judging")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return tuple(_judges[name] for name in sorted(_judges))
