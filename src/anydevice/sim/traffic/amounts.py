"""Bytes and seconds as people write them, and read back."""

from __future__ import annotations

import re

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BINARY = {"K": 2**10, "KIB": 2**10, "M": 2**20, "MIB": 2**20, "G": 2**30, "GIB": 2**30, "T": 2**40, "TIB": 2**40}


def size(nbytes: float) -> str:
    """`1536` as `1.5 kB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 1000:
            return f"{nbytes:.0f} {unit}" if unit == "B" or nbytes >= 100 else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.1f} TB"


def duration(seconds: float) -> str:
    """`0.0015` as `1.5 ms`."""
    if seconds == 0:
        return "0 s"
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds:.1f} s"


def parse_size(text: str) -> int:
    """Bytes that `8GB`, `512 MiB` or `8g` mean: `GB` is 10**9, `GiB` and a bare `G` are 2**30.

    Raises:
        ValueError: no such amount, or none at all.
    """
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([a-zA-Z]*)\s*", text)
    unit = {**_UNITS, **_BINARY}.get((match[2] or "B").upper()) if match else None
    if match is None or unit is None or float(match[1]) * unit < 1:
        raise ValueError(f"'{text}' is not an amount of memory; write 8GB, 8GiB or 512MiB")
    return int(float(match[1]) * unit)
