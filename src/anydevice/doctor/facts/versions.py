"""Version numbers as tuples that can be compared, and build variants such as cu126."""

from __future__ import annotations

import re

Number = tuple[int, ...]

_NUMBERS = re.compile(r"\d+(?:\.\d+)*")
_CUDA = re.compile(r"cu(\d{2,3})")


def number(version: str) -> Number:
    """`"2.5.1+cu124"` as `(2, 5, 1)`; suffixes such as `rc1` or `.post2` are dropped.

    Raises:
        ValueError: where the text begins with no number.
    """
    match = _NUMBERS.match(version.strip())
    if match is None:
        raise ValueError(f"'{version}' is no version number")
    return tuple(map(int, match[0].split(".")))


def local(version: str) -> str | None:
    """The build variant of a version: `cu124` of `2.5.1+cu124`, None where there is none."""
    return version.partition("+")[2].strip() or None


def cuda_of(variant: str) -> Number | None:
    """The CUDA version of a build variant: `(12, 6)` for `cu126`; None for `cpu`, `rocm6.3` and the like."""
    match = _CUDA.fullmatch(variant)
    return None if match is None else (int(match[1][:-1]), int(match[1][-1]))


def cuda_of_driver(level: int) -> Number:
    """What `cuDriverGetVersion` and messages count as 11040 or 12020: `(11, 4)` and `(12, 2)`."""
    return (level // 1000, level % 1000 // 10)


def dotted(version: Number) -> str:
    """`(12, 6)` as `12.6`."""
    return ".".join(map(str, version))
