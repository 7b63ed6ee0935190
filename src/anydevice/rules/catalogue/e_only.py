"""Group E, fifth part: what exists on CUDA only, and torch.cuda used in ways that no other rule sees through."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.cuda_api import CLAIMED, Fate, lookup, member
from anydevice.rules.cuda_calls import guarded_statement
from anydevice.rules.guards import needs_cuda
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.source.calls import Call
from anydevice.source.syntax import field, string_value, text


class CudaOnlyApi(PythonRule):
    """A name of `torch.cuda` that no other rule takes: private ones, raw handles, allocators, submodules.

    A statement whose absence does no harm is put behind `torch.cuda.is_available()`; everything else is for a person.
    """

    code = "ADE10"
    name = "cuda-only-api"
    summary = "exists on CUDA only"
    anchors = ("cuda", "_C")
    examples = (
        Example(
            "a statement",
            "import torch\ntorch.cuda._sleep(1000)\n",
            "import torch\nif torch.cuda.is_available():\n    torch.cuda._sleep(1000)\n",
        ),
        Example(
            "memory history",
            'import torch\ntorch.cuda.memory._dump_snapshot("m.pickle")\n',
            'import torch\nif torch.cuda.is_available():\n    torch.cuda.memory._dump_snapshot("m.pickle")\n',
        ),
        Example("a handle", "import torch\nh = torch.cuda.current_blas_handle()\n"),
        Example("a private binding", "import torch\nn = torch._C._cuda_getDeviceCount()\n"),
        Example("a list of architectures", "import torch\nok = 'sm_80' in torch.cuda.get_arch_list()\n"),
    )
    leaves = (
        Leave("import torch\nif torch.cuda.is_available():\n    torch.cuda._sleep(10)\n", "asked only of CUDA"),
        Leave("import torch\nf = torch._C._log_api_usage_once\n", "not about CUDA"),
        Leave("import torch\nx = torch.cuda.FloatTensor(3)\nn = torch.cuda.device_count()\n", "other rules take these"),
    )
    _IN_C = re.compile(r"torch\._C\._?(?:cuda|Cuda|cudnn|nccl)\w*")

    def check(self, site: Site) -> Iterator[Finding]:
        name = site.qualname or ""
        context, reference = site.context, site.reference
        if name.startswith("torch._C."):
            private = self._IN_C.match(name) and not name.startswith("torch._C._cudnn")
            if private and not site.is_import and not needs_cuda(context, reference):
                message = f"`{name}` is a private binding of the CUDA build: use the public function"
                yield context.finding(self, reference, message, Safety.MANUAL)
            return
        below = member(name)
        if below is None or site.word == "_C" or below in CLAIMED or below.partition(".")[0] in CLAIMED:
            return
        if site.is_import or needs_cuda(context, reference):
            return
        api = lookup(below)
        if api is not None and api.fate is Fate.QUIET:
            message = f"`{text(reference)}` answers for CUDA only: empty or False elsewhere; see that this is meant"
            yield context.finding(self, reference, message, Safety.MANUAL)
            return
        edits = guarded_statement(context, reference) if api is not None and api.fate is Fate.GUARDED else None
        note = f" ({api.note})" if api is not None and api.note else ""
        message = f"`{text(reference)}` exists on CUDA only{note}: put it, and what needs it, behind `if torch.cuda.is_available():`"
        yield context.finding(self, reference, message, Safety.SAFE if edits else Safety.MANUAL, edits or [])


class CudaModuleValue(PythonRule):
    """`torch.cuda` as a value, or by name: `backend = torch.cuda`, `import_module("torch.cuda")`, `patch("torch.cuda...")`.

    What is called through it cannot be seen. Instead: `torch.get_device_module(device)`, which is `torch.cuda` on CUDA;
    a mock of `torch.cuda.is_available` must mock what the code now asks.
    """

    code = "ADE11"
    name = "cuda-module-value"
    summary = "the module torch.cuda is handed on or looked up by name"
    anchors = ("cuda",)
    text_anchors = ("cuda",)
    examples = (
        Example("a value", "import torch\nrun(torch.cuda)\n"),
        Example("by name", 'import importlib\nm = importlib.import_module("torch.cuda")\n'),
        Example(
            "a mock",
            'from unittest.mock import patch\nwith patch("torch.cuda.is_available", return_value=False):\n    pass\n',
        ),
    )
    leaves = (
        Leave('import torch\nok = hasattr(torch.cuda, "amp")\n', "only asks"),
        Leave("import torch\nimport torch.cuda as tc\ntc.is_available()\n", "an alias, followed"),
        Leave('import logging\nlogging.getLogger("torch.cuda")\n', "just a string"),
    )
    _LOOKUPS = re.compile(r"(?:.*\.)?(?:import_module|__import__|patch|setattr|patch\.object|patch\.dict)\Z")

    def check(self, site: Site) -> Iterator[Finding]:
        if site.in_string:
            yield from self._by_name(site)
            return
        if site.qualname != "torch.cuda" or site.is_import or needs_cuda(site.context, site.reference):
            return
        parent = site.reference.parent
        called = parent.parent if parent is not None and parent.type == "argument_list" else None
        if called is not None and called.type == "call" and text(Call(called).function) == "hasattr":
            return
        if parent is None or parent.type in ("attribute", "dotted_name") or self._is_alias(site, parent):
            return
        yield site.context.finding(
            self,
            site.reference,
            "the module itself is handed on: use `torch.get_device_module(device)`, and see what is asked of it",
            Safety.MANUAL,
        )

    def _is_alias(self, site: Site, parent: Node) -> bool:
        """`cuda = torch.cuda`: the name is followed wherever it is used."""
        left = field(parent, "left") if parent.type == "assignment" else None
        return left is not None and left.type == "identifier" and len(site.module.names.bindings(text(left))) == 1

    def _by_name(self, site: Site) -> Iterator[Finding]:
        value, arguments = string_value(site.leaf) or "", site.leaf.parent
        call = arguments.parent if arguments is not None and arguments.type == "argument_list" else None
        if call is None or call.type != "call" or not (value == "torch.cuda" or value.startswith("torch.cuda.")):
            return
        if value.endswith(("Tensor", "Storage")) or not self._LOOKUPS.match(text(Call(call).function)):
            return
        advice = (
            "see that the code still asks for it"
            if "." in value.removeprefix("torch.")
            else "use `torch.get_device_module(device)`"
        )
        yield site.context.finding(self, call, f"`{value}` is looked up by name: {advice}", Safety.MANUAL)
