"""Group E, second part: the current device, asked for and set for a while."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.catalogue.e_management import explain, handed_on
from anydevice.rules.cuda_api import member
from anydevice.rules.cuda_calls import (
    NUMBERS,
    device_number,
    is_decorator,
    is_free,
    rewrite,
    written,
)
from anydevice.rules.guards import needs_accelerator, needs_cuda
from anydevice.rules.imports import nullcontext
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.source.calls import Call
from anydevice.source.syntax import field, same, text

# What hands on one of several values: `device or torch.cuda.current_device()`.
_CHOICES = frozenset({"boolean_operator", "conditional_expression", "parenthesized_expression"})


class CudaCurrentDevice(PythonRule):
    """`torch.cuda.current_device()` is the index of the current CUDA device, and raises where there is none.

    Instead: `torch.accelerator.current_device_index()` behind `torch.accelerator.is_available()`; where the index is
    given as a device, the device itself.
    """

    code = "ADE04"
    name = "cuda-current-device"
    summary = "the index of the current CUDA device is asked for"
    anchors = ("current_device",)
    examples = (
        Example(
            "a device argument",
            "import torch\nx = torch.ones(2, device=torch.cuda.current_device())\n",
            "import torch\nx = torch.ones(2, device=device)\n",
        ),
        Example("a move", "import torch\nx = x.to(torch.cuda.current_device())\n", "import torch\nx = x.to(device)\n"),
        Example(
            "a device's name",
            "import torch\ndevice = torch.cuda.current_device()\n",
            'import torch\ndevice = torch.accelerator.current_device_index() if torch.accelerator.is_available() else "cpu"\n',
        ),
        Example(
            "a device unless one is given",
            "import torch\ndef move(x, device=None):\n    device = device or torch.cuda.current_device()\n    return x.to(device)\n",
            "import torch\ndef move(x, device=None):\n    device = device or (torch.accelerator.current_device_index() "
            'if torch.accelerator.is_available() else "cpu")\n    return x.to(device)\n',
        ),
        Example(
            "a number",
            "import torch\nindex = torch.cuda.current_device()\n",
            "import torch\nindex = torch.accelerator.current_device_index() if torch.accelerator.is_available() else 0\n",
        ),
        Example(
            "an old torch",
            "import torch\nindex = torch.cuda.current_device()\n",
            "import torch\nindex = torch.cuda.current_device() if torch.cuda.is_available() else 0\n",
            torch="1.8",
        ),
    )
    leaves = (Leave("import torch\nx = torch.accelerator.current_device_index()\n", "portable"),)
    _HELPERS = frozenset({"device_for", "indexed_device", "_device_for"})

    def check(self, site: Site) -> Iterator[Finding]:
        if member(site.qualname) != "current_device" or site.is_import:
            return
        context, call = site.context, site.call
        if call is None:
            yield context.finding(self, site.reference, handed_on("current_device"), Safety.MANUAL)
            return
        whole = self._given_as_device(call.node)
        if whole is not None:
            device = context.device(call.node)
            yield context.finding(
                self,
                call.node,
                f"the current CUDA device is given as a device; write `{device.expr}`",
                Safety.SAFE,
                [site.module.replace(whole, device.expr), *device.edits],
            )
            return
        form = written(context, call, "current_device")
        if form is None:
            return
        safety = Safety.MANUAL if context.is_scripted(call.node) else Safety.SAFE
        yield context.finding(
            self,
            call.node,
            f"raises where there is no CUDA; {explain(form, call)}",
            safety,
            rewrite(context, call, form, self._otherwise(call.node)),
        )

    def _given_as_device(self, node: Node) -> Node | None:
        """What to replace by the device, when the index is given where a device goes."""
        parent = node.parent
        if parent is None:
            return None
        if parent.type == "keyword_argument":
            name = field(parent, "name")
            return node if name is not None and text(name) in ("device", "map_location") else None
        if parent.type != "argument_list" or parent.parent is None or parent.parent.type != "call":
            return None
        call = Call(parent.parent)
        if text(call.function) in self._HELPERS:
            return call.node
        return node if call.method == "to" and same(call.positional[0].node, node) else None

    def _otherwise(self, node: Node) -> str:
        parent = node.parent
        if parent is None:
            return "0"
        if parent.type == "keyword_argument":
            return "None"
        while parent.type in _CHOICES and parent.parent is not None:
            parent = parent.parent
        left = field(parent, "left") if parent.type == "assignment" else None
        return (
            '"cpu"' if left is not None and "dev" in text(left).rsplit(".", 1)[-1].lower().replace("idx", "") else "0"
        )


class CudaDeviceContext(PythonRule):
    """`with torch.cuda.device(i):` makes a CUDA device current for a while, and raises where there is no CUDA.

    Instead: `torch.accelerator.device_index(i)` (torch 2.8), given None where there is no accelerator; for an older
    torch, or an argument that may be a device, a context that does nothing where there is no CUDA.
    """

    code = "ADE05"
    name = "cuda-device-context"
    summary = "a CUDA device is made current by a with statement"
    anchors = ("cuda",)
    examples = (
        Example(
            "a with statement",
            "import torch\nwith torch.cuda.device(gpu):\n    f()\n",
            "import torch\nwith torch.cuda.device(gpu) if torch.cuda.is_available() else contextlib.nullcontext():\n    f()\n",
        ),
        Example(
            "an index, torch 2.8",
            "import torch\nwith torch.cuda.device(1):\n    f()\n",
            "import torch\nwith torch.accelerator.device_index(1 if torch.accelerator.is_available() else None):\n    f()\n",
            torch="2.8",
        ),
        Example(
            "a tensor's device, torch 2.8",
            "import torch\nwith torch.cuda.device(x.device):\n    f()\n",
            "import torch\nwith torch.accelerator.device_index(x.device.index):\n    f()\n",
            torch="2.8",
        ),
        Example(
            "the device of a tensor, torch 2.8",
            "import torch\nwith torch.cuda.device_of(x):\n    f()\n",
            "import torch\nwith torch.accelerator.device_index(x.device.index):\n    f()\n",
            torch="2.8",
        ),
        Example("a statement without effect", "import torch\ntorch.cuda.device(0)\n"),
    )
    leaves = (
        Leave("import torch\nwith torch.cuda.device_of(x):\n    f()\n", "does nothing for a tensor elsewhere"),
        Leave(
            "import contextlib\nimport torch\nwith torch.cuda.device(1) if torch.cuda.is_available() else contextlib.nullcontext():\n    f()\n",
            "guarded",
        ),
        Leave("import torch\nif x.is_cuda:\n    with torch.cuda.device(x.device):\n        f()\n", "only for CUDA"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        name = member(site.qualname)
        if name not in ("device", "device_of") or site.is_import:
            return
        context, call = site.context, site.call
        if call is None or is_decorator(call.node):
            yield context.finding(
                self,
                site.reference,
                "makes a CUDA device current: use `with` and `torch.accelerator.device_index(i)`",
                Safety.MANUAL,
            )
            return
        if call.node.parent is not None and call.node.parent.type == "expression_statement":
            yield context.finding(
                self,
                call.node,
                "has no effect: `torch.cuda.device` is for `with`; was `set_device` meant?",
                Safety.MANUAL,
            )
            return
        index = self._index(site, call, name) if context.target.has("torch.accelerator.device_index") else None
        if index is not None:
            torch = context.placement.torch_name(call.node)
            new = f"{torch.text}.accelerator.device_index({index})"
            edits = [site.module.replace(call.node, new), *torch.edits]
        elif name == "device_of" or needs_cuda(context, call.node):
            return
        else:
            torch, null = context.placement.torch_name(call.node), nullcontext(context, call.node)
            spelled = device_number(context, call.arguments[0].value) if call.arguments else None
            asked = f"{text(call.function)}({spelled})" if spelled else text(call.node)
            new = f"{asked} if {torch.text}.cuda.is_available() else {null.text}"
            if not is_free(call.node):
                new = f"({new})"
            edits = [site.module.replace(call.node, new), *torch.edits, *null.edits]
        yield context.finding(self, call.node, f"raises where there is no CUDA; write `{new}`", Safety.SAFE, edits)

    def _index(self, site: Site, call: Call, name: str) -> str | None:
        """The argument for torch.accelerator.device_index, which takes an int or None."""
        argument = call.argument(0, "device", "obj")
        if argument is None or argument.starred:
            return None
        value = argument.value
        if name == "device_of":
            return (
                f"{text(value)}.device.index"
                if value.type in ("identifier", "attribute", "subscript", "call")
                else None
            )
        if (
            value.type == "attribute"
            and text(value).endswith(".device")
            and not text(value).startswith(("self.", "args."))
        ):
            return f"{text(value)}.index"
        if value.type == "call" and text(value).endswith(".get_device()"):
            return f"{text(value).removesuffix('.get_device()')}.device.index"
        number = device_number(site.context, value)
        if number is None and (value.type == "integer" or text(value).rsplit(".", 1)[-1] in NUMBERS):
            number = text(value)
        if number is None:
            return None
        if not number:
            return "None"
        if needs_accelerator(site.context, call.node):
            return number
        return f"{number} if {site.context.placement.available(call.node).text} else None"
