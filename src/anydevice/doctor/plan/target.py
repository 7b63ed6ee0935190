"""The machine that a plan is for: what was said on the command line, and what is not known stays None."""

from __future__ import annotations

import re
from dataclasses import dataclass

SYSTEMS = ("linux", "windows", "macos")
_NUMBERS = re.compile(r"\d{1,5}(?:\.\d{1,5}){0,3}", re.ASCII)
_GFX = re.compile(r"gfx[0-9a-f]{3,5}", re.ASCII)
_PYTHON = re.compile(r"3\.\d{1,2}t?", re.ASCII)


class TargetError(ValueError):
    """What was said of a machine cannot be understood. The message ends a line for users."""


@dataclass(frozen=True)
class Target:
    """A machine. `driver` is NVIDIA's; `capability` the one of its oldest GPU; `gfx` AMD's name of an architecture."""

    system: str
    arch: str
    python: str
    glibc: tuple[int, ...] | None = None
    driver: tuple[int, ...] | None = None
    capability: tuple[int, int] | None = None
    gfx: str | None = None
    xpu: bool = False

    @property
    def platform(self) -> str:
        """`linux_x86_64`, as the facts write it."""
        return f"{self.system}_{self.arch}"

    @property
    def mps(self) -> bool:
        """Whether the wheel for this machine can use Apple's GPU."""
        return self.platform == "macos_arm64"

    @property
    def seen(self) -> str:
        """`cuda`, `rocm`, `xpu`, `mps` or `cpu`: what there is to compute with."""
        if self.mps:
            return "mps"
        if self.system != "macos" and (self.driver is not None or self.capability is not None):
            return "cuda"
        if self.gfx is not None and self.system == "linux":
            return "rocm"
        return "xpu" if self.xpu and self.system != "macos" else "cpu"


def numbers(text: str, what: str) -> tuple[int, ...]:
    """`"550.54.15"` as (550, 54, 15)."""
    text = text.strip()
    if not _NUMBERS.fullmatch(text):
        raise TargetError(f"'{text[:40]}' is no {what}; write it like {_LIKE[what]}")
    return tuple(map(int, text.split(".")))


def python_version(text: str) -> str:
    """`3.12` or `3.13t` of `3.12.4`, which is all that wheels tell apart."""
    text = text.strip()
    threads = "t" if text.endswith("t") else ""
    short = ".".join(text.removesuffix("t").split(".")[:2]) + threads
    if not _PYTHON.fullmatch(short):
        raise TargetError(f"'{text[:40]}' is no version of Python; write it like 3.12")
    return short


def compute_capability(text: str) -> tuple[int, int]:
    """`"8.6"` and `"sm_86"` as (8, 6)."""
    bare = text.strip().lower().removeprefix("sm_").removeprefix("compute_")
    if bare.isdecimal() and len(bare) >= 2 and bare != text.strip():
        bare = f"{bare[:-1]}.{bare[-1]}"
    parts = numbers(bare, "compute capability")
    if len(parts) != 2:
        raise TargetError(f"'{text[:40]}' is no compute capability; write it like 8.6")
    return parts[0], parts[1]


def gfx_name(text: str) -> str | None:
    """AMD's name of an architecture, or None where it is none."""
    name = text.strip().lower()
    return name if _GFX.fullmatch(name) else None


_LIKE = {"driver version": "550.54.15", "compute capability": "8.6", "version of glibc": "2.31"}


def dotted(version: tuple[int, ...]) -> str:
    """The other way round: (2, 28) as `2.28`."""
    return ".".join(map(str, version))


def driver_text(version: tuple[int, ...]) -> str:
    """(450, 80, 2) as NVIDIA writes it: `450.80.02`."""
    return ".".join((str(version[0]), *(f"{part:02d}" for part in version[1:])))
