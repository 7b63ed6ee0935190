"""Group L, second part: one process whose code sends parts of the work to several devices itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.catalogue.l_parallel import WHOLE, conditional
from anydevice.rules.guards import needs_cuda
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.source.syntax import strip_parens, text


class DataParallelFunction(PythonRule):
    """`nn.parallel.data_parallel(module, x, ids)` raises on every machine without CUDA, unlike the class of that name.

    Instead: call the module itself there.
    """

    code = "ADL02"
    name = "data-parallel-function"
    summary = "nn.parallel.data_parallel raises without CUDA"
    anchors = ("data_parallel",)
    needs = (r"data_parallel\(",)
    examples = (
        Example(
            "DCGAN",
            "import torch\nfrom torch import nn\nout = nn.parallel.data_parallel(self.main, x, range(self.ngpu))\n",
            "import torch\nfrom torch import nn\nout = nn.parallel.data_parallel(self.main, x, range(self.ngpu)) "
            'if device.type not in ("cpu", "mps", "xpu") else self.main(x)\n',
        ),
        Example(
            "several inputs",
            "import torch\nfrom torch.nn.parallel import data_parallel\nreturn data_parallel(net, (a, b), module_kwargs=kw) + 1\n",
            "import torch\nfrom torch.nn.parallel import data_parallel\nreturn (data_parallel(net, (a, b), module_kwargs=kw) "
            'if device.type not in ("cpu", "mps", "xpu") else net(a, b, **kw)) + 1\n',
        ),
        Example("hidden arguments", "import torch\ny = torch.nn.parallel.data_parallel(*arguments)\n"),
    )
    leaves = (
        Leave(
            "import torch\nif torch.cuda.is_available():\n    y = torch.nn.parallel.data_parallel(f, x)\n",
            "only where there is CUDA",
        ),
        Leave("import torch\nself.data_parallel(f, x)\n", "a method of one's own"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.call
        name = site.qualname or text(site.reference)
        if (
            call is None
            or site.is_import
            or not re.match(r"(?:torch\.)?nn\.parallel\.(?:data_parallel\.)?data_parallel\Z", name)
        ):
            return
        context = site.context
        if needs_cuda(context, call.node) or WHOLE in _conditional_text(call.node):
            return
        module, inputs = call.argument(0, "module"), call.argument(1, "inputs")
        if call.has_star or module is None or inputs is None:
            yield context.finding(self, call.node, "raises without CUDA: call the module itself there", Safety.MANUAL)
            return
        arguments = [_spread(inputs.value)]
        keywords = call.argument(5, "module_kwargs")
        if keywords is not None and keywords.value.type != "none":
            arguments.append(f"**{text(keywords.value)}")
        function = (
            text(module.value)
            if module.value.type in ("identifier", "attribute", "subscript", "call")
            else f"({text(module.value)})"
        )
        plain = f"{function}({', '.join(a for a in arguments if a)})"
        device = context.device(call.node)
        yield context.finding(
            self,
            call.node,
            f"raises without CUDA; there, write `{plain}`",
            Safety.SAFE,
            [*conditional(context, call.node, f"{device.type} not in {WHOLE}", plain), *device.edits],
        )


def _conditional_text(node: Node) -> str:
    """The conditional expression of which `node` is a branch."""
    parent = node.parent
    return text(parent) if parent is not None and parent.type == "conditional_expression" else ""


def _spread(inputs: Node) -> str:
    """The inputs as they are given to the module itself."""
    node = strip_parens(inputs)
    if node.type == "none":
        return ""
    if node.type == "tuple":
        return ", ".join(text(child) for child in node.named_children if child.type != "comment")
    return text(node)


class CudaCommunication(PythonRule):
    """`torch.cuda.comm` and `nn.parallel.{scatter,gather,replicate,parallel_apply}` copy between CUDA devices of one process.

    There is no counterpart on other devices. Instead: DistributedDataParallel, or where there is one device the module
    itself.
    """

    code = "ADL03"
    name = "cuda-communication"
    summary = "copies between CUDA devices of one process"
    anchors = ("comm", "parallel")
    needs = ("torch", r"\b(?:comm|scatter|gather|scatter_kwargs|replicate|parallel_apply)\b")
    examples = (
        Example("reduce", "import torch.cuda.comm as comm\ny = comm.reduce_add(xs)\n"),
        Example("a broadcast", "import torch\nys = torch.cuda.comm.broadcast(x, [0, 1])\n"),
        Example("replicas", "import torch\nms = torch.nn.parallel.replicate(m, ids)\n"),
        Example("imported", "import torch\nfrom torch.nn.parallel import scatter\nxs = scatter(x, ids)\n"),
    )
    leaves = (
        Leave("import torch\ny = x.gather(1, i)\nz = torch.scatter(x, 0, i, s)\n", "tensor operators"),
        Leave("from mpi4py import MPI\ncomm = MPI.COMM_WORLD\ncomm.gather(x)\n", "not torch"),
        Leave(
            "import torch\nif torch.cuda.is_available():\n    torch.cuda.comm.gather(xs)\n", "only where there is CUDA"
        ),
    )
    _NAMES = re.compile(
        r"torch\.cuda\.comm\.|torch\.nn\.parallel\.(?:scatter_gather\.|replicate\.|parallel_apply\.|comm\.)?"
        r"(?:scatter|gather|scatter_kwargs|replicate|parallel_apply|broadcast\w*|reduce_add\w*)\Z"
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call, name = site.call, site.qualname or ""
        if call is None or site.is_import or not self._NAMES.match(name) or needs_cuda(site.context, call.node):
            return
        yield site.context.finding(
            self,
            call.node,
            f"`{text(call.function)}` copies between CUDA devices of one process: use torch.distributed "
            "(`DistributedDataParallel`, `all_reduce`, `broadcast`), and where there is one device the module itself",
            Safety.MANUAL,
        )


class ModelSplitByHand(PythonRule):
    """A model of which parts are sent to `cuda:0` and others to `cuda:1` needs that many devices.

    With each part sent to a chosen device, the program runs where there is one device, given its memory. Instead: take
    the devices as arguments, or spread the parts by `i % torch.accelerator.device_count()`.
    """

    code = "ADL04"
    name = "model-split-by-hand"
    summary = "parts of the program are spread over numbered devices"
    anchors = ("device_for", "cuda")
    text_anchors = ("cuda",)
    needs = ("torch", r"(?:cuda:|\.cuda\(|\.to\(|device_for\()[^)\n]{0,20}[1-9]")
    examples = (
        Example(
            "two halves",
            "import torch\nclass M(torch.nn.Module):\n    def __init__(self):\n        self.a = f().to('cuda:0')\n"
            "        self.b = f().to('cuda:1')\n",
        ),
        Example("by number", "import torch\na = a.cuda(0)\nb = b.cuda(1)\n"),
        Example("two device objects", 'import torch\na = torch.device("cuda:0")\nb = torch.device("cuda:1")\n'),
    )
    leaves = (
        Leave('import torch\nd = torch.device("cuda:1")\nm.to("cuda:1")\n', "one device"),
        Leave('import torch\ntorch.load(p, map_location={"cuda:1": "cuda:0"})\n', "a checkpoint's devices"),
    )
    _PLACED = re.compile(
        rb"""\.to\(\s*(?:device\s*=\s*)?(?:["']cuda:|(?=\d+\s*[,)]))(\d+)|\.cuda\(\s*(?:device\s*=\s*)?(?:["']cuda:)?(\d+)"""
        rb"""|torch\.device\(\s*["']cuda:(\d+)|\bdevice_for\((\d+)\)|(?m:^[ \t]*[\w.]+[ \t]*=[ \t]*["']cuda:(\d+)["'][ \t]*$)"""
    )

    def check(self, site: Site) -> Iterator[Finding]:
        line = site.module.data[
            site.module.line_start(site.leaf.start_byte) : site.module.line_end(site.leaf.start_byte)
        ]
        if not re.search(rb"[:(]\s*[1-9]", line):
            return
        scope = site.module.class_(site.leaf) or site.module.root
        places = [
            (
                match.start() + scope.start_byte,
                match.end() + scope.start_byte,
                int(next(g for g in match.groups() if g)),
            )
            for match in self._PLACED.finditer(site.module.data[scope.start_byte : scope.end_byte])
        ]
        indexes = {index for _, _, index in places}
        first = next((place for place in places if place[2] > 0), None)
        if len(indexes) < 2 or first is None or not first[0] <= site.leaf.start_byte <= first[1]:
            return
        owner = site.leaf if site.in_string else site.leaf.parent or site.leaf
        yield site.context.finding(
            self,
            owner,
            f"needs {max(indexes) + 1} devices (numbers {', '.join(map(str, sorted(indexes)))} are used): take them as arguments, "
            "or number them modulo `torch.accelerator.device_count()`, so that one device can hold all parts",
            Safety.MANUAL,
        )
