"""What PyTorch has published: releases, their builds and wheels, read from the facts. Nothing is decided here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from anydevice.doctor.plan.variant import is_variant

# A page that lists the index names what is there; a build script names what was meant to be there.
_LISTINGS = ("Previous PyTorch Versions", "torch_compatibility.json")


@dataclass(frozen=True)
class Wheel:
    """The wheel of one release for one platform on PyPI. `variant` is None where nobody has looked into it."""

    variant: str | None
    pythons: tuple[str, ...]
    tags: tuple[str, ...]
    glibc: tuple[int, ...] | None
    megabytes: int | None


@dataclass(frozen=True)
class Release:
    """One release of torch with its companions. None means that the fact is not known."""

    version: Version
    torchvision: str | None
    torchaudio: str | None
    requires_python: SpecifierSet | None
    wheels: Mapping[str, Wheel] = field(hash=False)
    listed: tuple[str, ...] | None
    candidates: tuple[str, ...]
    own_index: str | None = None

    @property
    def minor(self) -> str:
        """`2.14` of 2.14.1."""
        return f"{self.version.major}.{self.version.minor}"

    def pypi_variant(self, platform: str) -> str | None:
        """The build that PyPI serves there; None where that is unknown or nothing is served."""
        wheel = self.wheels.get(platform)
        return wheel.variant if wheel is not None else None

    def companions(self) -> tuple[str, ...]:
        """The requirements that bring what belongs to this torch: `torchvision==0.29.1`, `torchaudio>=2.11.0`."""
        named = (("torchvision", self.torchvision), ("torchaudio", self.torchaudio))
        return tuple(f"{name}{spec if spec[0] in '<>=' else '==' + spec}" for name, spec in named if spec)


@cache
def releases() -> tuple[Release, ...]:
    """All releases on PyPI, newest first."""
    return tuple(r for r in every_release() if r.own_index is None)


@cache
def every_release() -> tuple[Release, ...]:
    """All releases, newest first, with those that were on an index of their own only."""
    return tuple(sorted(map(_release, facts("torch_matrix")["rows"]), key=lambda r: r.version, reverse=True))


@cache
def facts(name: str) -> dict[str, Any]:
    """A file of facts as it is written."""
    loaded: dict[str, Any] = json.loads((files("anydevice.doctor.facts") / f"{name}.json").read_bytes())
    return loaded


def collected() -> str:
    """The day on which the list of releases was read."""
    day: str = facts("torch_matrix")["meta"]["collected"]
    return day


def _release(row: dict[str, Any]) -> Release:
    version, _, label = row["torch"].partition(" ")
    listed, candidates = _variants(row)
    return Release(
        version=Version(version),
        torchvision=row["torchvision"],
        torchaudio=(row["torchaudio"] or "").partition(" ")[0] or None,
        requires_python=SpecifierSet(row["requires_python"]) if row["requires_python"] else None,
        wheels={platform: _wheel(wheel) for platform, wheel in (row["pypi"] or {}).items() if wheel},
        listed=listed,
        candidates=candidates,
        own_index=label.strip("()").lower() or None,
    )


def _wheel(row: dict[str, Any]) -> Wheel:
    glibc = row.get("max_glibc_symbol")
    variant = (row.get("variant") or "").replace("cpu+mps", "cpu")
    return Wheel(
        variant=variant if is_variant(variant) else None,
        pythons=tuple(row["pythons"]),
        tags=tuple(row["platform_tags"]),
        glibc=tuple(map(int, glibc.split("."))) if glibc else _glibc_of(row["platform_tags"]),
        megabytes=row.get("wheel_mb_one_python"),
    )


def _glibc_of(tags: list[str]) -> tuple[int, ...] | None:
    """The glibc that the tags name, where they can be believed: manylinux1 was put on wheels that need more."""
    named = {"manylinux2014": (2, 17), "manylinux_2_28": (2, 28)}
    return min((need for tag in tags for name, need in named.items() if tag.startswith(name)), default=None)


def _variants(row: dict[str, Any]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The builds that are known to be on the index (None: no list was read), and those that were only planned."""
    named, sources = row["index_variants"], " ".join(row["index_variants_sources"] or ())
    if named is None:
        return None, ()
    if any(listing in sources for listing in _LISTINGS):
        return tuple(named), ()
    matrix = row["release_md"]
    if matrix is None:  # only the wheel of PyPI was seen
        return None, ()
    cuda = {f"cu{number.replace('.', '')}" for number in (*matrix["stable_cuda"], *matrix["experimental_cuda"])}
    known = {"cpu", "xpu", f"rocm{matrix['rocm']}", *cuda}
    return tuple(v for v in named if v in known), tuple(v for v in named if v not in known)


def sizes(release: Release, platform: str, variant: str) -> int | None:
    """Megabytes of the wheel, where it is the very one that PyPI serves."""
    wheel = release.wheels.get(platform)
    return wheel.megabytes if wheel is not None and wheel.variant == variant else None
