"""`Tensor.cuda`, `Tensor.to`, modules and storages that move, and what a tensor says of where it is."""

from __future__ import annotations

from typing import Any

import torch
import torch.storage

from anydevice.patching.patches import Patches
from anydevice.redirect import who_asks
from anydevice.redirect.redirection import Redirection

_to, _get_device = torch.Tensor.to, torch.Tensor.get_device
_is_cuda = torch._C.TensorBase.is_cuda.__get__
_parse_to = torch._C._nn._parse_to


def install(patches: Patches, redirection: Redirection) -> None:
    """Replace the methods."""
    send, kind = redirection.send, redirection.kind

    def cuda(
        self: torch.Tensor,
        device: Any = None,
        non_blocking: bool = False,
        memory_format: torch.memory_format = torch.preserve_format,
    ) -> torch.Tensor:
        where = send("cuda" if device is None else device, "Tensor.cuda")
        return _to(self, where, non_blocking=non_blocking, memory_format=memory_format)

    def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if args:
            if args[0].__class__ in (str, int):
                args = (send(args[0], "Tensor.to"), *args[1:])
        elif kwargs.get("device") is not None:
            kwargs["device"] = send(kwargs["device"], "Tensor.to")
        return _to(self, *args, **kwargs)

    def parse_to(*args: Any, **kwargs: Any) -> Any:
        if args and args[0].__class__ in (str, int):
            args = (send(args[0], "Module.to"), *args[1:])
        elif kwargs.get("device") is not None:
            kwargs["device"] = send(kwargs["device"], "Module.to")
        return _parse_to(*args, **kwargs)

    def is_cuda(self: torch.Tensor) -> bool:
        return self.device.type == kind and who_asks.library() is None

    def get_device(self: torch.Tensor) -> int:
        index = _get_device(self)
        return 0 if index < 0 and kind == "cpu" and who_asks.library() is None else index

    def storage_cuda(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
        return self.to(device=send("cuda" if device is None else device, "storage.cuda"))

    patches.set(torch.Tensor, "cuda", cuda)
    patches.set(torch.Tensor, "to", to)
    patches.set(torch.Tensor, "is_cuda", property(is_cuda))
    patches.set(torch.Tensor, "get_device", get_device)
    patches.set(torch._C._nn, "_parse_to", parse_to)
    for storage in (torch.storage._StorageBase, torch.TypedStorage):
        patches.set(storage, "cuda", storage_cuda)
