"""The oldest NVIDIA driver that runs builds of a CUDA version: a floor per CUDA major, not the toolkit's own driver."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from anydevice.doctor.plan.published import facts
from anydevice.doctor.plan.variant import cuda_version

_RANGE = re.compile(r"(cu\d+)(?:_to_(cu\d+))?")


@dataclass(frozen=True)
class Floor:
    """The lowest driver that will do, and where that is written."""

    driver: tuple[int, ...]
    source: str


def floor(variant: str, system: str) -> Floor | None:
    """The floor of a CUDA build on `linux` or `windows`; None where no source tells."""
    version = cuda_version(variant)
    if version is None or system not in ("linux", "windows"):
        return None
    for low, high, found in _thresholds(system):
        if low <= version <= high:
            return found
    for row in facts("cuda_driver")["minor_version_compat"]:
        # Before CUDA 11 every version had a floor of its own; those that no table above names are unknown.
        if row["cuda_major"] == version[0] and row[f"{system}_min"] is not None:
            return Floor(_numbers(row[f"{system}_min_exact"] or row[f"{system}_min"]), row["source"])
    return None


def packaged(variant: str, system: str) -> tuple[int, ...] | None:
    """The driver that came with the toolkit, which a GPU needs whose kernels are made at run time from PTX."""
    version = cuda_version(variant)
    if version is None or system not in ("linux", "windows"):
        return None
    column = f"toolkit_driver_{system}_x86_64"
    drivers = [
        _numbers(row[column])
        for row in facts("cuda_driver")["toolkit"]
        if row[column] and tuple(map(int, row["cuda"].split(".")[:2])) == version
    ]
    return min(drivers, default=None)


@cache
def _thresholds(system: str) -> tuple[tuple[tuple[int, int], tuple[int, int], Floor], ...]:
    table = facts("cuda_driver")[f"uv_{system}_thresholds"]
    rows = []
    for key, driver in table.items():
        match = _RANGE.fullmatch(key)
        if match is None:
            continue
        low, high = cuda_version(match[1]), cuda_version(match[2] or match[1])
        if low is not None and high is not None:
            rows.append((low, high, Floor(_numbers(driver), table["source"])))
    return tuple(rows)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
