"""The kinds of device, one file each with the same six questions, and the table that finds them by name."""

from __future__ import annotations

import torch

from anydevice.runtime.backends.backend import Backend, Memory
from anydevice.runtime.backends.cpu import Cpu
from anydevice.runtime.backends.cuda import Cuda
from anydevice.runtime.backends.mps import Mps
from anydevice.runtime.backends.plugin import Plugin
from anydevice.runtime.backends.xpu import Xpu

__all__ = ["Backend", "Memory", "accelerators", "backend_of", "register"]

# In order of preference. The plugins stand first: whoever installs one has that hardware, and torch_npu can make
# `torch.cuda` answer for the NPU (huggingface/accelerate#3020).
_KINDS: dict[str, Backend] = {
    backend.kind: backend
    for backend in (Plugin("npu"), Plugin("mlu"), Plugin("musa"), Plugin("hpu"), Cuda(), Xpu(), Mps(), Cpu())
}


def register(backend: Backend) -> None:
    """Add a kind of device, or replace the one of that name. It is preferred to all others."""
    others = {kind: other for kind, other in _KINDS.items() if kind != backend.kind}
    _KINDS.clear()
    _KINDS.update({backend.kind: backend, **others})


def backend_of(kind: str) -> Backend:
    """What answers for devices of the type `kind` (`torch.device.type`), whether or not it is listed here."""
    return _KINDS.get(kind) or Plugin(kind)


def accelerators() -> list[Backend]:
    """Every kind but the CPU, the preferred ones first; a renamed PrivateUse1 backend before them all."""
    found = [backend for kind, backend in _KINDS.items() if kind != "cpu"]
    renamed = torch._C._get_privateuse1_backend_name()
    if renamed != "privateuseone" and renamed not in _KINDS:
        found.insert(0, Plugin(renamed))
    return found
