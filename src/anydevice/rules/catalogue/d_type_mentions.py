"""Group D, fifth part: CUDA types in annotations, and those that are handed on to other code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.rules.typed import LegacyType, Role, maker, parse, reference, use
from anydevice.source.syntax import field, text

_CONSTRUCTOR = re.compile(r"tensor", re.IGNORECASE)  # how people call what makes tensors


class LegacyTypeAnnotation(PythonRule):
    """`x: torch.cuda.FloatTensor` tells the reader, and the tools that check types, that only CUDA will do.

    Instead: `torch.Tensor`, which every tensor is.
    """

    code = "ADD05"
    name = "legacy-type-annotation"
    summary = "an annotation names a CUDA type"
    anchors = ("cuda",)
    examples = (
        Example(
            "a parameter",
            "import torch\ndef f(x: torch.cuda.FloatTensor) -> torch.cuda.LongTensor:\n    return g(x)\n",
            "import torch\ndef f(x: torch.Tensor) -> torch.Tensor:\n    return g(x)\n",
        ),
        Example(
            "inside another type",
            "import torch\nfrom typing import List\nx: List[torch.cuda.FloatTensor] = []\n",
            "import torch\nfrom typing import List\nx: List[torch.Tensor] = []\n",
        ),
    )
    leaves = (Leave("import torch\ndef f(x: torch.FloatTensor):\n    pass\n", "a type of the CPU"),)

    def check(self, site: Site) -> Iterator[Finding]:
        found = reference(site)
        if found is None or found[1].storage or site.in_string or use(site.module, found[0]).role is not Role.ANNOTATES:
            return
        torch = site.context.placement.torch_name(found[0])
        yield site.context.finding(
            self,
            found[0],
            f"this takes tensors of any device; write `{torch.text}.Tensor`",
            Safety.SAFE,
            [site.module.replace(found[0], f"{torch.text}.Tensor"), *torch.edits],
        )


class LegacyTypeHandedOn(PythonRule):
    """A CUDA type that is given to a function, put into a table, or returned: where it ends up cannot be seen.

    Instead: a function that makes such tensors on the device, or a dtype beside a device.
    """

    code = "ADD08"
    name = "legacy-type-handed-on"
    summary = "a CUDA type is handed on"
    anchors = ("cuda",)
    examples = (
        Example("a table", "import torch\ntypes = {'f': torch.cuda.FloatTensor}\n"),
        Example("a result", "import torch\ndef f():\n    return torch.cuda.FloatTensor\n"),
        Example("an attribute of it", "import torch\nname = torch.cuda.FloatTensor.__name__\n"),
        Example(
            "an argument called so",
            "import torch\nloss = GANLoss(tensor=torch.cuda.FloatTensor)\n",
            "import torch\nloss = GANLoss(tensor=float_tensor)\n",
        ),
    )
    leaves = (Leave("import torch\ntypes = {'f': torch.FloatTensor}\n", "a type of the CPU"),)

    def check(self, site: Site) -> Iterator[Finding]:
        found = reference(site) or self._behind(site)
        if found is None or not found[1].dense or site.in_string:
            return
        node, type_ = found
        context, usage = site.context, use(site.module, node)
        if usage.role is not Role.OTHER:
            return
        function = maker(context, node, type_)
        keyword = text(field(usage.holder, "name") or node) if usage.holder.type == "keyword_argument" else ""
        makes = bool(_CONSTRUCTOR.search(keyword)) and keyword not in context.facts.converting_types
        yield context.finding(
            self,
            node,
            f"`{text(node)}` exists on CUDA only; hand on a function that makes such tensors on the device, or the dtype "
            f"`{type_.dtype}` and a device",
            Safety.UNSAFE if makes else Safety.MANUAL,
            [site.module.replace(node, function.text), *function.edits],
        )

    def _behind(self, site: Site) -> tuple[Node, LegacyType] | None:
        """A type with an attribute behind it."""
        inner = field(site.reference, "object") if site.reference.type == "attribute" else None
        type_ = parse(site.module.qualname(inner)) if inner is not None and not site.is_import else None
        return (inner, type_) if inner is not None and type_ is not None and type_.on_cuda else None
