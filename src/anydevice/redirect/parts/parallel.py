"""DataParallel on one device, process groups of nccl over what serves the device, pinned memory."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.utils.data

from anydevice.patching.patches import Patches
from anydevice.redirect.redirection import Redirection


def install(patches: Patches, redirection: Redirection) -> None:
    """Redirect what names devices or back ends; the classes stay what they are."""
    send, kind = redirection.send, redirection.kind
    data_parallel = torch.nn.DataParallel.__init__
    ddp = torch.nn.parallel.DistributedDataParallel.__init__

    def init_data_parallel(
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        torch.nn.Module.__init__(self)
        if kind == "xpu":
            data_parallel(self, module, device_ids, output_device, dim)
            return
        self.module, self.dim = module, dim
        self.device_ids = []  # with none, `forward` calls the module
        send("cuda", "DataParallel")

    def init_ddp(
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, *args: Any, **kw: Any
    ) -> None:
        if kind != "xpu" and device_ids is not None:
            send("cuda", "DistributedDataParallel")
            device_ids = output_device = None
        ddp(self, module, device_ids, output_device, *args, **kw)

    def functional(module: Any, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
                   module_kwargs: Any = None) -> Any:  # fmt: skip
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        return module(*inputs, **(module_kwargs or {}))

    patches.set(torch.nn.DataParallel, "__init__", init_data_parallel)
    patches.set(torch.nn.parallel.DistributedDataParallel, "__init__", init_ddp)
    if kind != "xpu":
        patches.everywhere(torch.nn.parallel, "data_parallel", functional)
    if kind == "cpu":
        patches.set(torch.Tensor, "pin_memory", lambda self, device=None: self)
        patches.set(torch.Tensor, "is_pinned", lambda self, device=None: False)
    if not dist.is_available():
        return
    library = {"xpu": "xccl"}.get(kind, "gloo")
    begin, group = dist.init_process_group, dist.new_group

    def translated(backend: Any) -> Any:
        if isinstance(backend, str) and "nccl" in backend:
            send("cuda", f"backend {backend!r} (now {library})")
            return library if ":" not in backend else library if library == "gloo" else f"cpu:gloo,xpu:{library}"
        return backend

    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        if kind != "xpu":
            kwargs.pop("device_id", None)
        return begin(translated(backend), *args, **kwargs)

    def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        return group(ranks, timeout, translated(backend), *args, **kwargs)

    patches.everywhere(dist.distributed_c10d, "init_process_group", init_process_group)
    patches.everywhere(dist.distributed_c10d, "new_group", new_group)
    patches.everywhere(dist.distributed_c10d, "is_nccl_available", lambda: True)
