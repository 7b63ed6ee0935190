"""Where `cuda` goes, and how PyTorch is patched for it. Each part of the API has a module with an `install` of its own."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import torch

from anydevice.patching import scripts
from anydevice.patching.patches import Patches
from anydevice.redirect.log import CHANGED, FAKED, Log

Device = torch.device  # the C type; `torch.device` is replaced
KINDS = ("cpu", "mps", "xpu")


class NoCounterpart(RuntimeError):
    """The program asks for something that exists on CUDA only.

    Args:
        what: the name asked for, as the program spells it.
        instead: what the user can do about it.
    """

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(f"anydevice run: {what} has no counterpart outside CUDA; {instead}")


def choose(wanted: str) -> str:
    """The kind of device that is meant by `--device`: `auto` is the first of cuda, xpu, mps that works, else cpu.

    Raises:
        ValueError: there is no such device here.
    """
    there = {
        "cuda": torch.cuda.is_available(),
        "xpu": torch.xpu.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if wanted == "auto":
        return next(kind for kind, available in there.items() if available)
    if wanted not in there:
        raise ValueError(f"'--device {wanted}': not one of auto, {', '.join(there)}")
    if not there[wanted]:
        raise ValueError(f"'--device {wanted}': PyTorch finds no such device here; 'auto' takes what is there")
    return wanted


class Redirection:
    """Sends `cuda` to the devices of one kind.

    Attributes:
        kind: of the devices.
        count: how many the program is told of, at least one.
        log: what was done.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.count = torch.xpu.device_count() if kind == "xpu" else 1
        self.log = Log()
        self._patches = Patches()

    def send(self, value: Any, what: str) -> Any:
        """The device that is there, where `value` names one of CUDA; `value` itself otherwise."""
        kind = value.__class__
        if kind is str:
            if not value.startswith("cuda"):
                return value
            index = value[5:]
            number = int(index) if index.isdigit() else None
        elif kind is int:
            if value < 0:
                return value
            number = value
        elif kind is Device and value.type == "cuda":
            number = value.index
        else:
            return value
        device = self.device(number)
        self.log.note(CHANGED, what, str(device))
        return device

    def device(self, index: int | None = None) -> torch.device:
        """The device that stands for `cuda:index`; an index counts only where there are several."""
        return Device(self.kind) if index is None or self.kind != "xpu" else Device(self.kind, index)

    def faked(self, what: str, answer: Any) -> Any:
        """Give an answer that this machine has none for, and note it."""
        self.log.note(FAKED, what, repr(answer)[:80])
        return answer

    def install(self) -> None:
        """Patch PyTorch, all or nothing."""
        package = importlib.import_module("anydevice.redirect.parts")
        try:
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{package.__name__}.{module.name}").install(self._patches, self)
            self._patches.spread()
            scripts.recognise(self._patches)
        except BaseException:
            self._patches.restore()
            raise

    def uninstall(self) -> None:
        """Give PyTorch back as it was."""
        self._patches.restore()
