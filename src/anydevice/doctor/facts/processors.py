"""GPU architectures: what each build of torch was compiled for, and whether a GPU can run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from anydevice.doctor.facts.files import read
from anydevice.doctor.facts.versions import number

Capability = tuple[int, int]


@dataclass(frozen=True)
class Compiled:
    """The architectures in one build."""

    torch: str  # a version, or a minor such as 2.8 that stands for all its patch releases
    variant: str
    platform: str  # one of releases.PLATFORMS, or `*` where all are unknown
    sm: tuple[int, ...] | None  # 75 for sm_75; None where unknown
    ptx: tuple[int, ...] | None  # 120 for compute_120, which newer GPUs can compile for themselves
    evidence: str | None  # binary, build-script, build-script (second hand quote), release-matrix
    source: str | None
    note: str | None

    def runs(self, capability: Capability) -> bool | None:
        """Whether a GPU of this compute capability can run the build; None where it is unknown."""
        if self.sm is None:
            return None
        if any(covers(sm, capability) for sm in self.sm):
            return True
        return any(capability >= (ptx // 10, ptx % 10) for ptx in self.ptx or ())


def covers(sm: int, capability: Capability) -> bool:
    """Whether machine code for `sm` (75 for sm_75) runs on a GPU of this compute capability.

    As torch's own DEVICE_REQUIREMENT says, which the data file holds: `7.0-7.x except 7.2`, `only 8.7`, `8.9`. For an
    architecture that is not in it, the same major and no lower minor.
    """
    named, excepted = _requirements().get(sm, (None, frozenset()))
    if named is not None:
        return capability in named
    return capability not in excepted and sm // 10 == capability[0] and sm % 10 <= capability[1]


@cache
def _requirements() -> Mapping[int, tuple[frozenset[Capability] | None, frozenset[Capability]]]:
    """By architecture: the only capabilities it runs on, or None, and those of its range that it does not run on."""
    found: dict[int, tuple[frozenset[Capability] | None, frozenset[Capability]]] = {}
    for sm, words in read("architectures")["rules"]["device_requirement"].items():
        span, _, exception = words.partition(" except ")
        named = None if ".x" in span else _capabilities(span.removeprefix("only "))
        found[int(sm)] = (named, _capabilities(exception))
    return found


def _capabilities(text: str) -> frozenset[Capability]:
    return frozenset(
        (int(major), int(minor)) for major, _, minor in (one.partition(".") for one in text.split("/") if one)
    )


@cache
def builds() -> tuple[Compiled, ...]:
    """All known builds, the best evidence first."""
    rows = [_compiled(row) for row in read("architectures")["rows"]]
    rank = ("binary", "build-script", "release-matrix")
    return tuple(
        sorted(rows, key=lambda row: rank.index(row.evidence) if row.evidence in rank else len(rank))  # stable
    )


def compiled_for(torch: str, variant: str, platform: str) -> Compiled | None:
    """What the build was compiled for: an entry of this very version before one of its minor; None where unknown.

    An entry may itself say unknown (`sm is None`) and, in its note, why.
    """
    wanted = number(torch)
    candidates = [row for row in builds() if row.variant == variant and row.platform in (platform, "*")]
    for version in (wanted, wanted[:2]):
        for row in candidates:
            if number(row.torch) == version:
                return row
    return next((row for row in candidates if number(row.torch)[:2] == wanted[:2]), None)


@cache
def rocm_targets() -> Mapping[str, tuple[str, ...]]:
    """The gfx targets of each ROCm index, by variant."""
    return {row["variant"]: tuple(row["gfx"]) for row in read("architectures")["rocm_gfx"]}


def traps() -> tuple[str, ...]:
    """Where support is not what one would expect, in sentences."""
    return tuple(read("architectures")["traps"])


def _compiled(row: Mapping[str, Any]) -> Compiled:
    return Compiled(
        row["torch"],
        row["variant"],
        row["platform"],
        _numbers(row["sm"]),
        _numbers(row["ptx"]),
        row["evidence"],
        row["source"],
        row["note"],
    )


def _numbers(names: list[str] | None) -> tuple[int, ...] | None:
    return None if names is None else tuple(sorted(int(name.partition("_")[2].rstrip("a")) for name in names))
