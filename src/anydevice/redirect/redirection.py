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
        self._sent: dict[tuple[type, Any], Any] = {}
        self._patches = Patches()

    def send(self, value: Any, what: str) -> Any:
        """The device that is there, where `value` names one of CUDA; `value` itself otherwise."""
        kind = value.__class__
        if kind is not str and kind is not int and kind is not Device:
            return value
        known = self._sent.get((kind, value), self)
        if known is self:
            known = self._sent[kind, value] = self._meant(value)
        if known is None:
            return value
        device, name = known
        self.log.note(CHANGED, what, name)
        return device

    def _meant(self, value: str | int | torch.device) -> tuple[torch.device, str] | None:
        """The device that stands for it, and its name; None where it is none of CUDA."""
        if isinstance(value, str):
            kind, _, index = value.partition(":")
            if kind != "cuda" or not (index.isdigit() or value == "cuda"):
                return None  # and PyTorch says of `cuda:x` what it says of it
            device = self.device(int(index) if index else None)
        elif isinstance(value, int):
            if value < 0:
                return None
            device = self.device(value)
        elif value.type == "cuda":
            device = self.device(value.index)
        else:
            return None
        return device, str(device)

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
