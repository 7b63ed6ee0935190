"""What is known of the machine on which the log was written: from a probe, from the log itself, or nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from anydevice.doctor.facts.signatures import Pattern, Signature
from anydevice.doctor.facts.versions import local


class MachineFacts(Protocol):
    """What an explanation can make use of; each is None where it is not known."""

    @property
    def driver(self) -> str | None:
        """The NVIDIA driver: `470.82.01`."""

    @property
    def cuda(self) -> str | None:
        """The newest CUDA that the driver knows: `11.4`."""

    @property
    def gpu(self) -> str | None:
        """The name of the GPU."""

    @property
    def capability(self) -> tuple[int, int] | None:
        """The compute capability of the GPU."""

    @property
    def torch(self) -> str | None:
        """The version of torch, without its variant: `2.5.1`."""

    @property
    def variant(self) -> str | None:
        """The build variant of torch: `cpu`, `cu124`."""

    @property
    def platform(self) -> str | None:
        """One of `facts.releases.PLATFORMS`."""


@dataclass(frozen=True)
class Machine:
    """The facts as plain values."""

    driver: str | None = None
    cuda: str | None = None
    gpu: str | None = None
    capability: tuple[int, int] | None = None
    torch: str | None = None
    variant: str | None = None
    platform: str | None = None


def _mention(name: str, *patterns: tuple[tuple[str, ...], str]) -> Signature:
    wordings = tuple(Pattern(words, text) for words, text in patterns)
    return Signature(name, "mention", wordings, "", "", "", (), "", frozenset(), (), None, None)


# what logs say of their machine, found in the same pass as the errors
MENTIONS = (
    _mention(
        "mention-driver",
        (
            ("NVIDIA-SMI", "Driver"),
            r"Driver Version: (?P<driver>\d+\.[\d.]+)(?: {0,4}CUDA Version: (?P<cuda>\d+\.\d+))?",
        ),
        (("Kernel", "NVRM"), r"Kernel Module(?: for x86_64)? (?P<driver>\d{3}\.[\d.]+)"),
        (("driver", "Nvidia"), r"Nvidia driver version: (?P<driver>\d{3}\.[\d.]+)"),
    ),
    _mention(
        "mention-torch",
        (("torch", "+cu"), r"\btorch(?:==|-| version:? | )v?(?P<torch>\d+\.\d+\.\d+\+cu\d{2,3})\b"),
        (("torch", "+cpu"), r"\btorch(?:==|-| version:? | )v?(?P<torch>\d+\.\d+\.\d+\+cpu)\b"),
        (("PyTorch", "version"), r"PyTorch version:? (?P<torch>\d+\.\d+\.\d+(?:\+\w+)?)"),
        (("torch==",), r"\btorch==(?P<torch>\d+\.\d+\.\d+(?:\+\w+)?)"),
    ),
    _mention(
        "mention-platform",
        (("site-packages\\torch",), r"site-packages\\torch"),
    ),
)
_VERSION = re.compile(r"\d+(?:\.\d+)+")


def said(groups: dict[str, str], *, windows: bool, here: MachineFacts | None) -> Machine:
    """What the log says, and `here` where it says nothing. `here` may be another machine, so the log comes first."""
    torch = groups.get("torch")
    version = None if torch is None else _VERSION.match(torch)
    capability = groups.get("capability")
    level = tuple(map(int, capability.split("."))) if capability else None
    if level is None and groups.get("sm", "").isdigit():
        level = (int(groups["sm"][:-1] or 0), int(groups["sm"][-1]))
    return Machine(
        driver=groups.get("driver") or (here.driver if here else None),
        cuda=groups.get("cuda") or (here.cuda if here else None),
        gpu=groups.get("gpu") or (here.gpu if here else None),
        capability=(level[0], level[1]) if level else (here.capability if here else None),
        torch=version[0] if version else (here.torch if here else None),
        variant=(local(torch) if torch else None) or (here.variant if here and not torch else None),
        platform="windows_x86_64" if windows else (here.platform if here else None),
    )
