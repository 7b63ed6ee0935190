"""NVIDIA's drivers: what each CUDA toolkit came with, what each CUDA major needs, and what uv takes for a driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from anydevice.doctor.facts.files import read
from anydevice.doctor.facts.versions import cuda_of, number

System = Literal["linux", "windows"]


@dataclass(frozen=True)
class Toolkit:
    """One CUDA toolkit and the driver packaged with it, which is *not* the floor for running wheels."""

    cuda: str
    label: str
    branch: str | None  # R615
    linux: str | None  # driver version; None where NVIDIA names only the branch
    windows: str | None
    source: str


@dataclass(frozen=True)
class Floor:
    """The oldest driver on which any build of a CUDA major runs; None where there is no such rule (before CUDA 11)."""

    cuda_major: int
    linux: str | None
    windows: str | None
    note: str | None
    source: str


@cache
def toolkits() -> tuple[Toolkit, ...]:
    """All known CUDA toolkits, newest first."""
    return tuple(
        Toolkit(
            row["cuda"],
            row["label"],
            row["driver_branch"],
            row["toolkit_driver_linux_x86_64"],
            row["toolkit_driver_windows_x86_64"],
            row["source"],
        )
        for row in read("cuda")["toolkit"]
    )


@cache
def floors() -> Mapping[int, Floor]:
    """The driver floors by CUDA major. Exact versions where NVIDIA gave them, else the branch."""
    return {
        row["cuda_major"]: Floor(
            row["cuda_major"],
            row["linux_min_exact"] or row["linux_min"],
            row["windows_min_exact"] or row["windows_min"],
            row["note"],
            row["source"],
        )
        for row in read("cuda")["minor_version_compat"]
    }


def floor(variant: str, system: System = "linux") -> str | None:
    """The oldest driver for a build variant such as `cu126`; None where it is not CUDA, or unknown.

    From CUDA 11 on the major decides; before, the driver of the very toolkit.
    """
    cuda = cuda_of(variant)
    if cuda is None:
        return None
    rule = floors().get(cuda[0])
    found = None if rule is None else getattr(rule, system)
    if found is not None or cuda[0] >= 11:
        return None if found is None else str(found)
    rows = [toolkit for toolkit in toolkits() if number(toolkit.cuda)[:2] == cuda]
    return getattr(rows[-1], system) if rows else None


@cache
def uv_thresholds(system: System) -> Mapping[str, str]:
    """The driver that uv's `--torch-backend=auto` asks for each CUDA variant, newest variant first.

    A range in the source (`cu120_to_cu129`) stands for those of its CUDA releases that exist.
    """
    exist = {f"cu{major}{minor}" for major, minor, *_ in (number(toolkit.cuda) for toolkit in toolkits())}
    found: dict[str, str] = {}
    for key, threshold in read("cuda")["uv_thresholds"][system]["floors"].items():
        first, _, last = key.partition("_to_")
        low, high = int(first[2:]), int((last or first)[2:])
        for digits in range(high, low - 1, -1):
            if f"cu{digits}" in exist:
                found[f"cu{digits}"] = threshold
    return found


def uv_source(system: System) -> str:
    """Where uv's thresholds were read."""
    return str(read("cuda")["uv_thresholds"][system]["source"])
