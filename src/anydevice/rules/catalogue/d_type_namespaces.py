"""Group D, sixth part: a name for `torch.cuda` or `torch`, whichever holds the types that are wanted."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.rules.type_uses import target_of
from anydevice.rules.typed import (
    DTYPES,
    LegacyType,
    Role,
    Written,
    attribute_mentions,
    choice,
    conversion,
    mentions,
    use,
)
from anydevice.source.calls import Call
from anydevice.source.syntax import field, same, text


class LegacyTypeNamespace(PythonRule):
    """`tt = torch.cuda if gpu else torch` makes `tt.FloatTensor(n)` a tensor on CUDA, or on the CPU.

    Instead: in the place of `torch.cuda`, a class whose functions of the same names make such tensors on the device.
    """

    code = "ADD09"
    name = "legacy-type-namespace"
    summary = "the module of the CUDA types gets a name"
    anchors = ("cuda",)
    examples = (
        Example(
            "an attribute",
            "import torch\nclass Beam:\n    def __init__(self, n, gpu):\n        self.tt = torch.cuda if gpu else torch\n"
            "        self.scores = self.tt.FloatTensor(n).zero_()\n",
            "import torch\nclass Beam:\n    def __init__(self, n, gpu):\n        self.tt = device_types if gpu else torch\n"
            "        self.scores = self.tt.FloatTensor(n).zero_()\n",
        ),
        Example(
            "for .type()",
            "import torch\nT = torch.cuda if gpu else torch\nx = x.type(T.LongTensor)\n",
            "import torch\nT = device_types if gpu else torch\nx = x.to(T.LongTensor())\n",
        ),
    )
    leaves = (
        Leave("import torch\nmod = torch.cuda if gpu else torch\nmod.manual_seed(1)\n", "not used for its types"),
        Leave("import torch\nmod = torch.cuda\nmod.synchronize()\n", "not used for its types, and always CUDA"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if site.qualname != "torch.cuda" or site.is_import:
            return
        node, context = site.reference, site.context
        usage = use(site.module, node)
        target = target_of(usage.holder, usage.value) if usage.role is Role.NAMED else None
        if target is None or not all(_is_namespace(context, leaf) for leaf in choice(usage.value)[0]):
            return
        found = _types(context, target)
        if not found:
            return
        kinds, converted = found

        def definition(name: str, torch: str, device: str) -> str:
            here, unit = Written(torch, device, ()), context.module.indent_unit
            lines = [
                f"{unit}{kind}Tensor = staticmethod(lambda *args: {here.constructor(LegacyType(kind))}(*args))\n"
                for kind in kinds
            ]
            return f"class {name}:\n{''.join(lines)}"

        types = context.placement.function(node, ("device_types", "_device_types"), definition)
        edits = [site.module.replace(node, types.text), *types.edits]
        for call in converted:
            start = field(call.function, "attribute") or call.function
            new = conversion(call, f"{text(call.arguments[0].value)}()")
            edits.append(site.module.edit(start.start_byte, call.node.end_byte, new))
        yield context.finding(
            self,
            node,
            f"the types of `{text(node)}` exist on CUDA only; write `{types.text}`, a class whose functions of the same names "
            "make such tensors on the device",
            Safety.SAFE,
            edits,
        )


def _is_namespace(context: Context, node: Node) -> bool:
    return context.module.qualname(node) in ("torch", "torch.cuda")


def _types(context: Context, target: Node) -> tuple[list[str], list[Call]] | None:
    """(the kinds of the types that are used through a name, what they convert); None where anything else is used."""
    module = context.module
    nodes = (
        mentions(module, text(target), target) if target.type == "identifier" else attribute_mentions(module, target)
    )
    kinds: dict[str, None] = {}
    converted = []
    for node in nodes:
        member = node.parent
        name = field(member, "attribute") if member is not None and member.type == "attribute" else None
        kind = text(name).removesuffix("Tensor") if name is not None else ""
        if member is None or kind not in DTYPES or not same(field(member, "object"), node):
            return None
        usage = use(module, member)
        if usage.role is Role.CONVERTS and same(usage.value, member):
            converted.append(Call(usage.holder))
        elif usage.role not in (Role.CALLED, Role.MAPPED):
            return None
        kinds[kind] = None
    return (list(kinds), converted) if kinds else None
