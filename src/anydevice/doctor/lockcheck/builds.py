"""Which build an entry will bring on Linux, as far as the file and the facts tell."""

from __future__ import annotations

import re
from functools import cache

from packaging.version import Version

from anydevice.doctor.lockcheck.listing import FAMILY, Entry, Listing
from anydevice.doctor.plan.published import Release, every_release, releases
from anydevice.doctor.plan.variant import family

LINUX = "linux_x86_64"
_NVIDIA = re.compile(r"nvidia-(?!ml-py$|pyindex$|smi$)[a-z0-9-]+|cuda-(?:toolkit|bindings|pathfinder|python|runtime)")
_CONDA_CUDA = re.compile(r"pytorch-cuda|cudatoolkit|cuda-.+|cudnn|nccl|libcublas.*")
_BUILD = re.compile(r"cuda_?(\d{1,2})\.?(\d)|cu(\d{2})(\d)(?!\d)")
_OWN_ABI = Version("2.11")  # of torchaudio, which takes any torch from here on; torch_matrix.json summary.stable_abi


def brings_cuda(entry: Entry) -> bool:
    """Whether the package is one of NVIDIA's libraries."""
    if entry.conda:
        return _CONDA_CUDA.fullmatch(entry.name) is not None or _NVIDIA.fullmatch(entry.name) is not None
    return _NVIDIA.fullmatch(entry.name) is not None


@cache
def release(version: Version) -> Release | None:
    """The release of torch with this public version."""
    return next((r for r in every_release() if r.version == version), None)


def newest_admitted(entry: Entry) -> Release | None:
    """The newest torch on PyPI that an entry for torch admits."""
    return next((r for r in releases() if entry.admits(r.version)), None)


def paired(entry: Entry) -> tuple[Release, ...]:
    """The releases of torch whose companion this entry admits, newest first."""
    if entry.name == "torch":
        return tuple(r for r in every_release() if entry.admits(r.version))
    return tuple(
        r
        for r in every_release()
        if (spec := getattr(r, entry.name)) is not None and not spec.startswith(">") and entry.admits(spec)
    )


def build_of(entry: Entry, listing: Listing) -> str | None:
    """`cpu`, `cu126` ... or `cuda` where only that much is known; None where nothing is."""
    if entry.name not in FAMILY or not entry.on_linux:
        return None
    if entry.tag is not None:
        return entry.tag
    if entry.conda:
        return _conda_build(entry, listing)
    if entry.url is not None:
        return None
    if entry.index is not None:  # a mirror whose address tells nothing
        return None
    own, beside = _index_builds(listing)
    if own is not None:
        return own
    if beside is not None and _is_on(entry, beside):
        return beside
    if any("pypi.org" not in index.url and index.variant is None for index in listing.indexes):
        return None
    return pypi_build(entry)


def pypi_build(entry: Entry) -> str | None:
    """The build of the wheel that PyPI would serve on Linux."""
    if entry.name == "torchaudio" and (entry.exact is None or entry.exact >= _OWN_ABI):
        return None  # wheels for any torch: whether they hold CUDA code is not in the facts
    found = next((r for r in paired(entry) if r.own_index is None), None)
    return found.pypi_variant(LINUX) if found is not None else None


def _index_builds(listing: Listing) -> tuple[str | None, str | None]:
    """The build of the index that replaces PyPI, and that of the first one beside it."""
    own = next((i.variant for i in reversed(listing.indexes) if not i.extra and i.variant), None)
    beside = next((i.variant for i in listing.indexes if i.extra and i.variant), None)
    return own, beside


def _is_on(entry: Entry, variant: str) -> bool:
    """Whether the newest version that the entry admits is on the index: its local version then outranks PyPI's."""
    newest = next(iter(paired(entry)), None)
    return newest is not None and newest.listed is not None and variant in newest.listed


def _conda_build(entry: Entry, listing: Listing) -> str | None:
    match = _BUILD.search(entry.build)
    if match is not None:
        return f"cu{match[1] or match[3]}{match[2] or match[4]}"
    if "cpu" in entry.build:
        return "cpu"
    if "cuda" in entry.build or "gpu" in entry.build:
        return "cuda"
    names = {other.name: other for other in listing.entries if other.conda}
    if "cpuonly" in names:
        return "cpu"
    chosen = names.get("pytorch-cuda") or names.get("cudatoolkit") or names.get("cuda-version")
    if chosen is None:
        return None
    number = re.search(r"(\d{1,2})\.(\d)", chosen.specifier)
    return f"cu{number[1]}{number[2]}" if number else "cuda"


def differ(one: str, other: str) -> bool:
    """Whether two builds cannot stand together; `cuda` alone agrees with every CUDA build."""
    if "cuda" in (one, other):
        return family(one) != family(other)
    return one != other
