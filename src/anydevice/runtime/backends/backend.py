"""What is asked of each kind of device, and the small kernel that proves one of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch


@dataclass(frozen=True)
class Memory:
    """Bytes of a device: those that this process could still allocate, and all there are."""

    free: int
    total: int


class Backend(ABC):
    """A kind of device.

    Attributes:
        kind: the `torch.device.type`.
        missing: dtypes that it cannot hold.
        uploads_behind: whether a copy from the host may go on while the program does, and what is queued on the device
            after it still sees the right values.
        indexed: whether its tensors carry an index (`cuda:0`; the CPU's do not).
    """

    kind: str
    missing: ClassVar[frozenset[torch.dtype]] = frozenset()
    uploads_behind: ClassVar[bool] = False
    indexed: ClassVar[bool] = True

    @property
    def module(self) -> Any:
        """The module of PyTorch that drives it (`torch.cuda`); None where there is none."""
        return getattr(torch, self.kind, None)

    @abstractmethod
    def built(self) -> bool:
        """Whether this PyTorch was built for it, or a plugin for it is loaded."""

    @abstractmethod
    def count(self) -> int:
        """How many of them this process can see, found out without starting the driver where that can be done."""

    def started(self) -> bool:
        """Whether this process has started its driver already, so that using it changes nothing for forked children."""
        return True

    def unusable(self, index: int) -> str | None:
        """Why a kernel cannot run on it, as far as that is known without running one."""
        return None

    @abstractmethod
    def memory(self, index: int) -> Memory | None:
        """Its memory as the driver sees it, other processes' use included; None where nothing can tell."""

    def current(self) -> int:
        """The index of the current one of this process."""
        if not self.started():
            return 0  # nothing else can have been set: setting it starts the driver
        current = getattr(self.module, "current_device", None)
        return int(current()) if current is not None else 0


def trial(device: torch.device) -> str | None:
    """Run a small kernel on `device` and wait for its result: why that failed, or None. It starts the driver.

    An allocation alone would prove nothing, and a kernel's error may come only at the synchronisation.
    """
    try:
        ones = torch.ones(8, 8, device=device)
        found = float((ones @ ones).sum())
    except Exception as error:  # whatever its driver raises is the answer
        first = str(error).strip().partition("\n")[0]
        return f"a kernel fails on it ({type(error).__name__}: {first})"
    return None if found == 512.0 else f"a kernel gives {found} on it where 512.0 is right"
