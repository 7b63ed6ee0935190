"""Group L, fourth part: one process per device: how torch.distributed binds a process to its device."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.catalogue.l_parallel import conditional
from anydevice.rules.guards import needs_cuda
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Call
from anydevice.source.syntax import string_value, strip_parens, text

_UNSHARED = '("cpu", "mps")'  # device types of which a process group has no use for a number


_BOUND = {
    "torch.nn.parallel.DistributedDataParallel": (("device_ids", 1), ("output_device", 2)),
    "torch.nn.parallel.distributed.DistributedDataParallel": (("device_ids", 1), ("output_device", 2)),
    "torch.distributed.fsdp.FullyShardedDataParallel": (("device_id", None),),
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel": (("device_id", None),),
    "torch.distributed.init_process_group": (("device_id", None),),
}


class ProcessBoundToGpu(PythonRule):
    """`DistributedDataParallel(m, device_ids=[rank])` and `device_id=` of a process group or of FSDP want an accelerator:
    on the CPU they raise.

    Instead: None there (for FSDP the CPU itself).
    """

    code = "ADL06"
    name = "process-bound-to-gpu"
    summary = "a process is bound to a numbered GPU, also on the CPU"
    anchors = ("DistributedDataParallel", "FullyShardedDataParallel", "init_process_group")
    examples = (
        Example(
            "both arguments",
            "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
            "m = DDP(m, device_ids=[rank], output_device=rank)\n",
            "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
            'm = DDP(m, device_ids=[rank] if device.type not in ("cpu", "mps") else None, '
            'output_device=rank if device.type not in ("cpu", "mps") else None)\n',
        ),
        Example(
            "by position",
            "import torch\nm = torch.nn.parallel.DistributedDataParallel(m, [args.gpu])\n",
            'import torch\nm = torch.nn.parallel.DistributedDataParallel(m, [args.gpu] if device.type not in ("cpu", "mps") else None)\n',
        ),
        Example(
            "sharded",
            "import torch\nfrom torch.distributed.fsdp import FullyShardedDataParallel as FSDP\nm = FSDP(m, device_id=rank)\n",
            "import torch\nfrom torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"
            'm = FSDP(m, device_id=rank if device.type != "cpu" else device)\n',
        ),
        Example(
            "a process group",
            "import torch\ntorch.distributed.init_process_group(device_id=torch.device(0))\n",
            'import torch\ntorch.distributed.init_process_group(device_id=torch.device(0) if device.type not in ("cpu", "mps") else None)\n',
        ),
    )
    leaves = (
        Leave("import torch\nm = torch.nn.parallel.DistributedDataParallel(m)\n", "no device is named"),
        Leave(
            "import torch\nm = torch.nn.parallel.DistributedDataParallel(m, device_ids=None)\n", "no device is named"
        ),
        Leave(
            "import torch\nm = torch.nn.parallel.DistributedDataParallel(m, device_ids=[r] if d.type == 'cuda' else None)\n",
            "decided already",
        ),
        Leave(
            "import torch\nif torch.cuda.is_available():\n    m = torch.nn.parallel.DistributedDataParallel(m, [0])\n",
            "only where there is CUDA",
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.call
        bound = _BOUND.get(site.qualname or "")
        if call is None or bound is None or site.is_import or needs_cuda(site.context, call.node):
            return
        context = site.context
        for name, position in bound:
            argument = call.argument(position, name)
            if argument is None or argument.starred or _is_decided(argument.value):
                continue
            device = context.placement.device_object(call.node)
            is_sharded = "Sharded" in (site.qualname or "")
            condition = f'{device.type} != "cpu"' if is_sharded else f"{device.type} not in {_UNSHARED}"
            otherwise = device.expr if is_sharded else "None"
            written = f"{text(argument.value)} if {condition} else {otherwise}"
            yield context.finding(
                self,
                argument.node,
                f"`{name}` must not name a device there where it is the CPU; write `{name}={written}`",
                Safety.SAFE,
                [*conditional(context, argument.value, condition, otherwise), *device.edits],
            )


def _is_decided(value: Node) -> bool:
    """Whether an argument is None already where it should be."""
    value = strip_parens(value)
    return value.type in ("none", "conditional_expression", "boolean_operator") or text(value) == "[]"


class SyncBatchNormOnCpu(PythonRule):
    """A converted SyncBatchNorm raises in training where the input is not on CUDA or XPU.

    Instead: convert only there; BatchNorm is the same for one process.
    """

    code = "ADL07"
    name = "sync-batch-norm-on-cpu"
    summary = "SyncBatchNorm trains on CUDA and XPU only"
    anchors = ("convert_sync_batchnorm",)
    examples = (
        Example(
            "a model",
            "import torch\nm = torch.nn.SyncBatchNorm.convert_sync_batchnorm(m)\n",
            'import torch\nm = torch.nn.SyncBatchNorm.convert_sync_batchnorm(m) if device.type not in ("cpu", "mps") else m\n',
        ),
        Example(
            "a model on its way",
            "import torch\nm = torch.nn.SyncBatchNorm.convert_sync_batchnorm(m).train()\n",
            'import torch\nm = (torch.nn.SyncBatchNorm.convert_sync_batchnorm(m) if device.type not in ("cpu", "mps") else m).train()\n',
        ),
    )
    leaves = (
        Leave(
            'import torch\nm = torch.nn.SyncBatchNorm.convert_sync_batchnorm(m) if d.type == "cuda" else m\n',
            "decided already",
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.call
        if call is None or not (site.qualname or text(site.reference)).endswith("SyncBatchNorm.convert_sync_batchnorm"):
            return
        context, module = site.context, call.argument(0, "module")
        parent = call.node.parent
        if needs_cuda(context, call.node) or parent is None or parent.type == "conditional_expression":
            return
        if module is None or module.starred:
            yield context.finding(self, call.node, "trains on CUDA and XPU only: convert only there", Safety.MANUAL)
            return
        device = context.device(call.node)
        condition = f"{device.type} not in {_UNSHARED}"
        yield context.finding(
            self,
            call.node,
            f"trains on CUDA and XPU only; convert only where `{condition}`",
            Safety.SAFE,
            [*conditional(context, call.node, condition, text(module.value)), *device.edits],
        )


class CudaDeviceMesh(PythonRule):
    """`init_device_mesh("cuda", ...)` makes a mesh of CUDA devices.

    Instead: the type of the chosen device, which is the same string on CUDA.
    """

    code = "ADL08"
    name = "cuda-device-mesh"
    summary = "a device mesh of CUDA devices"
    anchors = ("init_device_mesh", "DeviceMesh")
    examples = (
        Example(
            "a mesh",
            'import torch\nfrom torch.distributed.device_mesh import init_device_mesh\nm = init_device_mesh("cuda", (4,))\n',
            "import torch\nfrom torch.distributed.device_mesh import init_device_mesh\nm = init_device_mesh(device.type, (4,))\n",
        ),
        Example(
            "by name",
            "import torch\nm = torch.distributed.DeviceMesh(device_type='cuda', mesh=[0, 1])\n",
            "import torch\nm = torch.distributed.DeviceMesh(device_type=device.type, mesh=[0, 1])\n",
        ),
    )
    leaves = (
        Leave("from torch.distributed import init_device_mesh\nm = init_device_mesh(kind, (4,))\n", "not spelled out"),
        Leave('from jax import DeviceMesh\nm = DeviceMesh("cuda")\n', "not torch"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.call
        if call is None or not (site.qualname or "").startswith("torch.distributed."):
            return
        argument = call.argument(0, "device_type")
        if argument is None or string_value(argument.value) not in ("cuda", "cuda:0"):
            return
        device = site.context.device(call.node)
        yield site.context.finding(
            self,
            argument.value,
            f"a mesh of CUDA devices; write `{device.type}`",
            Safety.SAFE,
            [site.module.replace(argument.value, device.type), *device.edits],
        )


class ProcessPerGpu(PythonRule):
    """`mp.spawn(f, nprocs=torch.cuda.device_count())` starts no process at all where no GPU is counted.

    Instead: at least one, `max(1, ...)`.
    """

    code = "ADL09"
    name = "process-per-gpu"
    summary = "starts no process where there is no GPU"
    anchors = ("nprocs",)
    needs = ("torch", "nprocs")
    examples = (
        Example(
            "a count",
            "import torch\ntorch.multiprocessing.spawn(f, nprocs=torch.cuda.device_count())\n",
            "import torch\ntorch.multiprocessing.spawn(f, nprocs=max(1, torch.cuda.device_count()))\n",
        ),
        Example(
            "a name for the count",
            "import torch\nn = torch.cuda.device_count()\ntorch.multiprocessing.spawn(f, args=(n,), nprocs=n)\n",
            "import torch\nn = max(1, torch.cuda.device_count())\ntorch.multiprocessing.spawn(f, args=(n,), nprocs=n)\n",
        ),
        Example(
            "a setting",
            "import torch\nargs.ngpus = torch.cuda.device_count()\ntorch.multiprocessing.spawn(f, nprocs=args.ngpus)\n",
            "import torch\nargs.ngpus = max(1, torch.cuda.device_count())\ntorch.multiprocessing.spawn(f, nprocs=args.ngpus)\n",
        ),
    )
    leaves = (
        Leave("import torch\ntorch.multiprocessing.spawn(f, nprocs=4)\n", "a number"),
        Leave("import torch\nn = max(1, torch.cuda.device_count())\nspawn(f, nprocs=n)\n", "at least one already"),
        Leave("import torch\nspawn(f, nprocs=args.processes)\n", "not known to count devices"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        argument = site.keyword
        if argument is None or b"torch" not in site.module.data:
            return
        for count in self._counts(site.context, argument.value):
            if needs_cuda(site.context, count):
                continue
            yield site.context.finding(
                self,
                count,
                f"no process is started where no GPU is counted; write `max(1, {text(count)})`",
                Safety.SAFE,
                [site.module.insert(count.start_byte, "max(1, "), site.module.insert(count.end_byte, ")")],
            )

    def _counts(self, context: Context, value: Node) -> list[Node]:
        """The calls that count devices and may be the value of `value`."""
        value = strip_parens(value)
        if value.type == "call":
            name = context.module.qualname(Call(value).function) or ""
            counted = name.endswith(".device_count") and name.startswith(("torch.cuda.", "torch.accelerator."))
            return [value] if counted else []
        if value.type == "identifier":
            bindings = context.module.names.lookup(value)
            values = [b.value for b in bindings if b.value is not None and b.kind == "assignment"]
            return [count for bound in values if bound.type == "call" for count in self._counts(context, bound)]
        if value.type != "attribute":
            return []
        found = []
        for match in re.finditer(
            rb"(?m)^[ \t]*" + re.escape(text(value).encode()) + rb"[ \t]*=(?!=)[ \t]*", context.module.data
        ):
            leaf = context.module.leaf(match.end(), match.end() + 1)
            while leaf is not None and leaf.parent is not None and leaf.parent.type in ("attribute", "call"):
                leaf = leaf.parent
            if leaf is not None and leaf.type == "call":
                found += self._counts(context, leaf)
        return found
