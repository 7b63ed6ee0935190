"""Group Q, device numbers: what `get_device` gives, used as if it were a device."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.home import Home
from anydevice.rules.residence import residence
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, field, same, text

_HEAD = "import torch\n"
_TENSOR = r"\.(?:size|shape|dim|view|new\w*|unsqueeze|squeeze|permute|transpose|reshape|contiguous|expand|type_as|float|detach|data)\b"


class GetDeviceAsDevice(PythonRule):
    """`x.get_device()` is the number of a GPU, and -1 on the CPU, which is no device.

    Instead: `x.device`, which works on every device.

    References: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.get_device.html
    """

    code = "ADQ12"
    name = "get-device-as-device"
    summary = "`x.get_device()` is no device on the CPU"
    anchors = ("get_device",)
    examples = (
        Example(
            "an argument",
            _HEAD + "def f(x):\n    return torch.zeros(x.size(0), device=x.get_device())\n",
            _HEAD + "def f(x):\n    return torch.zeros(x.size(0), device=x.device)\n",
        ),
        Example(
            "a name used as a device",
            _HEAD
            + "def f(x):\n    d = x.get_device()\n    m = torch.eye(x.size(0), device=d)\n    return m + torch.ones(3).to(d)\n",
            _HEAD
            + "def f(x):\n    d = x.device\n    m = torch.eye(x.size(0), device=d)\n    return m + torch.ones(3).to(d)\n",
        ),
        Example(
            "compared and used",
            _HEAD
            + "def f(x):\n    d = x.get_device()\n    if d >= 0:\n        return torch.ones(x.size(0)).to(d)\n    return x.view(1)\n",
        ),
        Example(
            "a device made of it",
            _HEAD + 'def f(x):\n    return torch.device("cuda:%d" % x.get_device()), x.view(1)\n',
            _HEAD + "def f(x):\n    return x.device, x.view(1)\n",
        ),
        Example("a name of a device", _HEAD + 'def f(x):\n    return x.view(1).to("cuda:%d" % x.get_device())\n'),
    )
    leaves = (
        Leave(
            _HEAD + "def f(x):\n    if x.get_device() < 0:\n        return x.view(1)\n", "a comparison works everywhere"
        ),
        Leave("from mine import get_device\nmodel.to(get_device())\n", "a function of one's own"),
        Leave("import mine\nmodel.to(mine.get_device())\n", "a function of another module"),
        Leave(
            "class A:\n    def get_device(self):\n        return 1\nprint(torch.ones(3, device=a.get_device()))\n",
            "a method of one's own",
        ),
        Leave(_HEAD + "print(x.get_device())\n", "only shown"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.method_call
        if call is None or call.arguments or call.receiver is None or self._is_own(site, call.receiver):
            return
        parent = call.node.parent
        if parent is not None and parent.type == "assignment":
            yield from self._named(site, call, parent)
            return
        maker = _maker(site.context, call.node)
        if maker is not None:
            shown = text(call.receiver)
            yield site.context.finding(
                self,
                call.node,
                f"the number is -1 on the CPU; write `{shown}.device` for `{text(maker)[:50]}`",
                Safety.SAFE if _looks_like_tensor(site.context, call.receiver) else Safety.UNSAFE,
                [site.module.replace(maker, f"{shown}.device")],
            )
            return
        use = _use_of_device(site.context, call.node)
        if use == "device":
            yield self._replaced(site, call)
        elif use == "text":
            yield site.context.finding(
                self, call.node, f"the number is -1 on the CPU; write `{text(call.receiver)}.device`", Safety.MANUAL
            )

    def _is_own(self, site: Site, receiver: Node) -> bool:
        if b"def get_device(" in site.module.data or text(receiver) == "self":
            return True
        root = receiver
        while root.type == "attribute" and (inner := field(root, "object")) is not None:
            root = inner
        return root.type == "identifier" and any(b.kind in ("import", "class") for b in site.module.names.lookup(root))

    def _replaced(self, site: Site, call: Call) -> Finding:
        receiver = call.receiver
        assert receiver is not None
        safety = Safety.SAFE if _looks_like_tensor(site.context, receiver) else Safety.UNSAFE
        edit = site.module.edit(site.leaf.start_byte, call.node.end_byte, "device")
        shown = text(receiver)[:40]
        return site.context.finding(
            self,
            call.node,
            f"`{shown}.get_device()` is -1 on the CPU, which is no device; write `{shown}.device`",
            safety,
            [edit],
        )

    def _named(self, site: Site, call: Call, assignment: Node) -> Iterator[Finding]:
        left = field(assignment, "left")
        if left is None or left.type != "identifier" or not same(field(assignment, "right"), call.node):
            return
        uses = [
            use
            for use in residence(site.context).uses(text(left))
            if any(b.node.id == left.id for b in residence(site.context).reaching(use))
        ]
        kinds = {_use_of_device(site.context, use) for use in uses}
        if kinds == {"device"}:
            yield self._replaced(site, call)
        elif "device" in kinds or "text" in kinds:
            shown = text(call.receiver or left)
            yield site.context.finding(
                self,
                call.node,
                f"`{text(left)}` is -1 on the CPU and is used as a device; write `{shown}.device` and compare its `.type`",
                Safety.MANUAL,
            )


def _maker(context: Context, number: Node) -> Node | None:
    """The `torch.device("cuda", x.get_device())` or `torch.device(f"cuda:{x.get_device()}")` around a number."""
    for parent in ancestors(number):
        if parent.type == "call":
            call = Call(parent)
            if context.module.qualname(call.function) == "torch.device":
                return parent if '"cuda' in text(parent) or "'cuda" in text(parent) else None
            if text(call.function) != "str" and call.method != "format":
                return None
        elif parent.type not in (
            "interpolation",
            "string",
            "argument_list",
            "binary_operator",
            "attribute",
            "keyword_argument",
        ):
            return None
    return None


def _use_of_device(context: Context, node: Node) -> str | None:
    """How a device number is used: as a device, in a text that names one, or in another way (None)."""
    parent = node.parent
    if parent is None:
        return None
    if parent.type == "keyword_argument":
        name = field(parent, "name")
        holder = parent.parent.parent if parent.parent is not None else None
        if name is not None and text(name) == "device" and holder is not None and holder.type == "call":
            return "device"
        return None
    if parent.type == "argument_list" and parent.parent is not None and parent.parent.type == "call":
        call = Call(parent.parent)
        called = context.module.qualname(call.function) or ""
        first = bool(call.positional) and same(call.positional[0].value, node)
        if called == "torch.device" or (called == "" and call.method in ("to", "cuda")):
            return "device" if first else None
        if call.method == "format" and call.receiver is not None and "cuda" in text(call.receiver):
            return "text"
        return _use_of_device(context, call.node) if text(call.function) in ("str", "int") else None
    if parent.type in ("binary_operator", "concatenated_string") and re.search(r"[\"']cuda", text(parent)):
        return "text"
    if parent.type == "interpolation" and parent.parent is not None and re.match(r"f[\"']cuda:", text(parent.parent)):
        return "text"
    return None


def _looks_like_tensor(context: Context, receiver: Node) -> bool:
    where = residence(context)
    if where.of(receiver) in (Home.CPU, Home.DEVICE, Home.PLACED, Home.SCALAR):
        return True
    if receiver.type == "attribute" and text(receiver).endswith((".weight", ".bias", ".data")):
        return True
    scope = context.module.function(receiver) or context.module.root
    return re.search(rf"(?<![\w.]){re.escape(text(receiver))}{_TENSOR}", text(scope)) is not None
