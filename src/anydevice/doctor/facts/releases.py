"""PyTorch's releases: which wheels there are, what they were built with, and what goes with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from anydevice.doctor.facts.files import read
from anydevice.doctor.facts.versions import number

PLATFORMS = ("linux_x86_64", "linux_aarch64", "windows_x86_64", "macos_arm64", "macos_x86_64")


@dataclass(frozen=True)
class Wheel:
    """What `pip install torch==X` brings on one platform, from PyPI."""

    platform: str
    variant: str  # cpu, cpu+mps, cu130
    variant_evidence: str | None
    pythons: tuple[str, ...]  # 3.12, 3.13t
    platform_tags: tuple[str, ...]
    megabytes: int | None  # of one Python's wheel, without what it requires
    glibc: str | None  # the highest GLIBC symbol it needs; None where unknown or not Linux
    glibcxx: str | None


@dataclass(frozen=True)
class TorchRelease:
    """One release of torch. None means unknown, unless a field says otherwise."""

    version: str
    lts: bool
    date: str | None  # of the upload to PyPI; None also where it is not on PyPI
    torchvision: str
    torchaudio: str | None  # a version, or `>=2.11.0 (stable ABI)`; None where none was released with it
    requires_python: str | None
    index_variants: tuple[str, ...] | None  # on PyTorch's own index, as pages and generators list them
    wheels: Mapping[str, Wheel | None]  # by platform; None where PyPI has none for it
    on_pypi: bool
    matrix: Mapping[str, Any] | None  # the row of RELEASE.md: python, stable_cuda, experimental_cuda, rocm, cudnn
    cxx11_abi: bool | None  # of the wheels for linux_x86_64 on PyPI
    cxx11_abi_evidence: str | None
    xpu: str | None
    pairing_notes: tuple[str, ...]
    notes: tuple[str, ...]
    sources: tuple[str, ...]


@cache
def releases() -> tuple[TorchRelease, ...]:
    """All known releases, oldest first."""
    return tuple(_release(row) for row in read("torch")["rows"])


def release(version: str) -> TorchRelease | None:
    """The release of a version such as `2.5.1` or `2.5.1+cu124`; None where it is not known."""
    try:
        wanted = number(version)
    except ValueError:
        return None
    return next((one for one in releases() if number(one.version) == wanted), None)


def newest() -> TorchRelease:
    """The newest release that was known when the facts were collected."""
    return releases()[-1]


def _release(row: Mapping[str, Any]) -> TorchRelease:
    wheels = row["pypi"]
    return TorchRelease(
        version=row["torch"],
        lts=row["lts"],
        date=row["release_date_pypi"],
        torchvision=row["torchvision"],
        torchaudio=row["torchaudio"],
        requires_python=row["requires_python"],
        index_variants=None if row["index_variants"] is None else tuple(row["index_variants"]),
        wheels={platform: _wheel(platform, (wheels or {}).get(platform)) for platform in PLATFORMS},
        on_pypi=wheels is not None,
        matrix=row["release_md"],
        cxx11_abi=row["cxx11_abi_linux_x86_64"],
        cxx11_abi_evidence=row["cxx11_abi_evidence"],
        xpu=row["xpu"],
        pairing_notes=tuple(row["pairing_notes"] or ()),
        notes=tuple(row["notes"] or ()),
        sources=tuple(row["source"]) + tuple(row["index_variants_sources"] or ()),
    )


def _wheel(platform: str, row: Mapping[str, Any] | None) -> Wheel | None:
    if row is None:
        return None
    return Wheel(
        platform=platform,
        variant=row["variant"],
        variant_evidence=row["variant_evidence"],
        pythons=tuple(row["pythons"]),
        platform_tags=tuple(row["platform_tags"]),
        megabytes=row["wheel_mb_one_python"],
        glibc=row.get("max_glibc_symbol"),
        glibcxx=row.get("max_glibcxx_symbol"),
    )
