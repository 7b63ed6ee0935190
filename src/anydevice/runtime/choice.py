"""What a choice of device came from: each candidate, why it was passed over, and one line that says it all."""

from __future__ import annotations

from dataclasses import dataclass

import torch


class DeviceUnavailable(RuntimeError):
    """A device that was asked for by name is not there, or cannot be used."""


@dataclass(frozen=True)
class Candidate:
    """A kind of device that was looked at.

    Attributes:
        kind: the `torch.device` type.
        built: whether this PyTorch knows it.
        visible: how many of them this process can see.
        device: the one that can be used; None where none can.
        objection: why none can, as the end of the sentence "cuda: ..."; empty where one can.
        broken: whether devices are there and cannot be used, which is worth a warning.
    """

    kind: str
    built: bool
    visible: int
    device: torch.device | None = None
    objection: str = ""

    @property
    def broken(self) -> bool:
        """Whether there are such devices, and none can be used."""
        return self.visible > 0 and self.device is None


@dataclass(frozen=True)
class Choice:
    """The device that was chosen, and why.

    Attributes:
        device: the device, with its index where its tensors carry one.
        reason: why this one, in one line.
        considered: what was looked at, in order; what came after the chosen one was not.
    """

    device: torch.device
    reason: str
    considered: tuple[Candidate, ...]

    def __str__(self) -> str:
        return f"using {self.device}: {self.reason}"
