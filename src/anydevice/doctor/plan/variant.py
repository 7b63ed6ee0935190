"""Names of builds, as PyTorch's indexes spell them: `cpu`, `cu126`, `rocm7.2`, `xpu`."""

from __future__ import annotations

import re

INDEX = "https://download.pytorch.org/whl"  # https://pytorch.org/get-started/locally/

_CUDA = re.compile(r"cu(\d{1,2})(\d)", re.ASCII)
_ROCM = re.compile(r"rocm(\d+(?:\.\d+){0,2})", re.ASCII)


def is_variant(name: str) -> bool:
    """Whether `name` is spelled like a build that PyTorch publishes."""
    return name in ("cpu", "xpu") or cuda_version(name) is not None or _ROCM.fullmatch(name) is not None


def family(variant: str) -> str:
    """`cpu`, `cuda`, `rocm` or `xpu`."""
    return "cuda" if variant.startswith("cu") else "rocm" if variant.startswith("rocm") else variant


def cuda_version(variant: str) -> tuple[int, int] | None:
    """`cu126` as (12, 6); None where it is no CUDA build."""
    match = _CUDA.fullmatch(variant)
    # CUDA 7.5 is the oldest that any wheel was built with; "cu25" is the name of no build.
    return (int(match[1]), int(match[2])) if match and int(match[1]) >= 7 else None


def newness(variant: str) -> tuple[int, ...]:
    """A key that sorts the builds of one family from old to new."""
    cuda = cuda_version(variant)
    if cuda is not None:
        return cuda
    rocm = _ROCM.fullmatch(variant)
    return tuple(map(int, rocm[1].split("."))) if rocm else ()


def index_url(variant: str) -> str:
    """The index of PyTorch that holds the builds of one variant only."""
    return f"{INDEX}/{variant}"
