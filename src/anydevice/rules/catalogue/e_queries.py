"""Group E, third part: what is asked of torch.cuda about a device."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.cuda_api import DEVICE_QUERIES, DTYPE_QUERIES, member
from anydevice.rules.cuda_calls import is_free
from anydevice.rules.device_properties import PROPERTIES, properties_read
from anydevice.rules.guards import needs_cuda
from anydevice.rules.imports import imported
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Call
from anydevice.source.syntax import same, text


class CudaDeviceQuery(PythonRule):
    """`torch.cuda.get_device_name()`, `get_device_properties()` and `get_device_capability()` raise where there is no CUDA.

    Instead: ask only where CUDA is, with a value for everything else: the device type for the name, `(0, 0)` for the
    capability. `torch.accelerator.get_device_capability` is no counterpart: it gives a dict of dtypes.
    """

    code = "ADE06"
    name = "cuda-device-query"
    summary = "name, properties or capability of a CUDA device are asked for"
    anchors = tuple(sorted(DEVICE_QUERIES))
    examples = (
        Example(
            "a name",
            "import torch\nprint(torch.cuda.get_device_name(0))\n",
            "import torch\nprint(torch.cuda.get_device_name(0) if torch.cuda.is_available() else device.type)\n",
        ),
        Example(
            "a capability",
            "import torch\nampere = torch.cuda.get_device_capability()[0] >= 8\n",
            "import torch\nampere = (torch.cuda.get_device_capability() if torch.cuda.is_available() else (0, 0))[0] >= 8\n",
        ),
        Example(
            "two numbers",
            "import torch\nmajor, minor = torch.cuda.get_device_capability(d)\n",
            "import torch\nmajor, minor = torch.cuda.get_device_capability(d) if torch.cuda.is_available() else (0, 0)\n",
        ),
        Example(
            "a property",
            "import torch\nm = torch.cuda.get_device_properties(0).total_memory / 1e9\n",
            "import torch\nm = (torch.cuda.get_device_properties(0).total_memory if torch.cuda.is_available() else 0) / 1e9\n",
        ),
        Example(
            "several properties",
            "import types\nimport torch\np = torch.cuda.get_device_properties(0)\nprint(p.name, p.total_memory)\n",
            "import types\nimport torch\np = torch.cuda.get_device_properties(0) if torch.cuda.is_available() else "
            "types.SimpleNamespace(name=device.type, total_memory=0)\nprint(p.name, p.total_memory)\n",
        ),
        Example(
            "properties that are handed on",
            "import torch\np = torch.cuda.get_device_properties(0)\nreport(p, p.name)\n",
        ),
    )
    leaves = (
        Leave(
            "import torch\nok = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 8\n",
            "asked only of CUDA",
        ),
        Leave(
            "import torch\nif torch.cuda.is_available():\n    print(torch.cuda.get_device_name())\n",
            "asked only of CUDA",
        ),
        Leave(
            'import torch\nif x.device.type == "cuda":\n    print(torch.cuda.get_device_name())\n', "asked only of CUDA"
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        name = self._name(site)
        if name is None or site.is_import:
            return
        context = site.context
        call, asked = self._asked(site, name)
        if call is None or asked is None:
            if not needs_cuda(context, site.reference):
                yield context.finding(
                    self,
                    site.reference,
                    f"`torch.cuda.{name}` raises where there is no CUDA: hand on a guarded function",
                    Safety.MANUAL,
                )
            return
        if needs_cuda(context, call.node):
            return
        otherwise, edits = self._otherwise(context, name, call, asked)
        if otherwise is None or context.is_scripted(call.node):
            yield context.finding(
                self,
                call.node,
                f"`{text(call.node)[:60]}` raises where there is no CUDA: put it and what is made of it behind `if torch.cuda.is_available():`",
                Safety.MANUAL,
            )
            return
        torch = context.placement.torch_name(call.node)
        open_, close = ("", "") if is_free(asked) else ("(", ")")
        question = f"{torch.text}.cuda.is_available()"
        new = f"{open_}{text(asked)} if {question} else {otherwise}{close}"
        yield context.finding(
            self,
            call.node,
            f"`{text(call.node)[:60]}` raises where there is no CUDA; write `{new}`",
            Safety.SAFE,
            [site.module.replace(asked, new), *torch.edits, *edits],
        )

    def _name(self, site: Site) -> str | None:
        """The function asked, also when the reference runs on into a property of what it gives."""
        name = member(site.qualname)
        return name if name in DEVICE_QUERIES else None

    def _asked(self, site: Site, name: str) -> tuple[Call | None, Node | None]:
        """The call, and the expression whose value is wanted: the call, or one property of its answer."""
        call = site.call
        if call is None:
            return None, None
        parent = call.node.parent
        if name == "get_device_properties" and parent is not None and parent.type == "attribute":
            return call, parent
        return call, call.node

    def _otherwise(self, context: Context, name: str, call: Call, asked: Node) -> tuple[str | None, tuple[Edit, ...]]:
        if name == "get_device_capability":
            return "(0, 0)", ()
        wanted = text(asked).rsplit(".", 1)[-1] if not same(asked, call.node) else ""
        if name == "get_device_name" or wanted == "name":
            device = context.device(call.node)
            return device.type, device.edits
        if name == "get_device_properties" and not wanted:
            return self._stand_in(context, call.node)
        return PROPERTIES.get(wanted), ()

    def _stand_in(self, context: Context, node: Node) -> tuple[str | None, tuple[Edit, ...]]:
        """An object with the very properties that are read of the name that the answer is given."""
        wanted = properties_read(context, node)
        if not wanted:
            return None, ()
        edits: tuple[Edit, ...] = ()
        values = {key: PROPERTIES.get(key, "0") for key in wanted}
        if "name" in values:
            device = context.device(node)
            values["name"], edits = device.type, device.edits
        types = imported(context, node, "types")
        fields = ", ".join(f"{key}={value}" for key, value in values.items())
        return f"{types.text}.SimpleNamespace({fields})", (*edits, *types.edits)


class CudaDtypeQuery(PythonRule):
    """`torch.cuda.is_bf16_supported()` is False wherever there is no CUDA (before torch 2.4 it raises there).

    CPUs, Intel GPUs and Apple GPUs (macOS 14) do bfloat16 too, so float16 is picked where bfloat16 would do. Instead:
    choose the dtype by device; on CUDA go on asking.
    """

    code = "ADE07"
    name = "cuda-dtype-query"
    summary = "which dtypes the device can do is asked of CUDA only"
    anchors = ("is_bf16_supported", "is_tf32_supported", "has_half")
    examples = (
        Example(
            "a choice of dtype",
            "import torch\nd = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16\n",
        ),
        Example(
            "an old torch",
            "import torch\nd = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16\n",
            "import torch\nd = torch.bfloat16 if (torch.cuda.is_available() and torch.cuda.is_bf16_supported()) else torch.float16\n",
            torch="1.12",
        ),
    )
    leaves = (
        Leave(
            "import torch\nif torch.cuda.is_available() and torch.cuda.is_bf16_supported():\n    pass\n",
            "asked only of CUDA",
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        name = member(site.qualname)
        context, node = site.context, site.call.node if site.call is not None else site.reference
        if name not in DTYPE_QUERIES or site.is_import or needs_cuda(context, node):
            return
        if site.call is None or name != "is_bf16_supported" or context.target.has("torch.get_device_module"):
            advice = (
                "choose the dtype by device (bfloat16 runs on CPUs and Intel GPUs, and on Apple GPUs from macOS 14)"
            )
            yield context.finding(
                self, node, f"`{text(node)}` is no answer about other devices: {advice}", Safety.MANUAL
            )
            return
        torch = context.placement.torch_name(node)
        new = f"({torch.text}.cuda.is_available() and {text(node)})"
        yield context.finding(
            self,
            node,
            f"raises where there is no CUDA; write `{new}`",
            Safety.SAFE,
            [site.module.replace(node, new), *torch.edits],
        )
