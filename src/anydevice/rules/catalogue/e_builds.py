"""Group E, fourth part: errors of CUDA, and how torch was built."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.cuda_api import member
from anydevice.rules.guards import needs_cuda
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Call
from anydevice.source.syntax import field, same, statement, string_value, text


class CudaOutOfMemory(PythonRule):
    """`torch.cuda.OutOfMemoryError` and the text "CUDA out of memory" name one back end's error.

    Instead: `torch.OutOfMemoryError` (torch 2.5), which is the same class, and "out of memory", which MPS and XPU say too.
    """

    code = "ADE08"
    name = "cuda-out-of-memory"
    summary = "running out of memory is recognised on CUDA only"
    anchors = ("OutOfMemoryError",)
    text_anchors = ("CUDA",)
    examples = (
        Example(
            "the class",
            "import torch\ntry:\n    f()\nexcept torch.cuda.OutOfMemoryError:\n    pass\n",
            "import torch\ntry:\n    f()\nexcept torch.OutOfMemoryError:\n    pass\n",
        ),
        Example(
            "the text",
            'import torch\ntry:\n    f()\nexcept RuntimeError as e:\n    if "CUDA out of memory" in str(e):\n        pass\n',
            'import torch\ntry:\n    f()\nexcept RuntimeError as e:\n    if "out of memory" in str(e):\n        pass\n',
        ),
    )
    leaves = (
        Leave('import torch\nprint("CUDA out of memory")\n', "a message of one's own"),
        Leave('import torch\nif "out of memory" in str(e):\n    pass\n', "true of every back end"),
    )
    _TEXT = re.compile(r"CUDA (?:error: )?out of memory")

    def check(self, site: Site) -> Iterator[Finding]:
        context = site.context
        if site.in_string:
            yield from self._text(site)
        elif (
            member(site.qualname) == "OutOfMemoryError"
            and not site.is_import
            and context.target.has("torch.OutOfMemoryError")
        ):
            torch = context.placement.torch_name(site.reference)
            new = f"{torch.text}.OutOfMemoryError"
            yield context.finding(
                self,
                site.reference,
                f"named for CUDA; write `{new}`, the same class",
                Safety.SAFE,
                [site.module.replace(site.reference, new), *torch.edits],
            )

    def _text(self, site: Site) -> Iterator[Finding]:
        value, parent = string_value(site.leaf), site.leaf.parent
        if value is None or parent is None or parent.type != "comparison_operator" or not self._TEXT.search(value):
            return
        if not any(child.type in ("in", "not in") for child in parent.children):
            return
        raw = text(site.leaf)
        new = self._TEXT.sub("out of memory", raw)
        yield site.context.finding(
            self,
            site.leaf,
            f"CUDA's words; write `{new}`, which holds for every back end",
            Safety.UNSAFE,
            [site.module.replace(site.leaf, new)],
        )


class CudaBuildQuery(PythonRule):
    """`torch.version.cuda` is None, and a build with CUDA says nothing of a GPU being there.

    Instead: `(torch.version.cuda or "0.0")` where the version is compared or taken apart; `torch.cuda.is_available()`
    instead of `torch.has_cuda` and `torch.backends.cuda.is_built()`.
    """

    code = "ADE09"
    name = "cuda-build-query"
    summary = "how torch was built is asked"
    anchors = ("cuda", "has_cuda", "hip")
    examples = (
        Example(
            "a version taken apart",
            'import torch\nmajor = int(torch.version.cuda.split(".")[0])\n',
            'import torch\nmajor = int((torch.version.cuda or "0.0").split(".")[0])\n',
        ),
        Example(
            "a version compared",
            "import torch\nnew = float(torch.version.cuda) >= 11\n",
            'import torch\nnew = float((torch.version.cuda or "0.0")) >= 11\n',
        ),
        Example(
            "a build taken for a device",
            'import torch\nd = "gpu" if torch.backends.cuda.is_built() else "cpu"\n',
            'import torch\nd = "gpu" if torch.cuda.is_available() else "cpu"\n',
        ),
        Example(
            "an old flag",
            "import torch\nif torch.has_cuda:\n    pass\n",
            "import torch\nif torch.cuda.is_available():\n    pass\n",
        ),
    )
    leaves = (
        Leave("import torch\nprint(torch.version.cuda)\n", "only shown"),
        Leave("import torch\nif torch.version.hip is not None:\n    pass\n", "a question about ROCm"),
        Leave('import torch\nv = (torch.version.cuda or "0.0").split(".")\n', "has a value everywhere"),
    )
    _PARSERS = re.compile(r"(?:float|int|(?:\w+\.)*(?:parse|Version|LooseVersion|StrictVersion|parse_version))\Z")

    def check(self, site: Site) -> Iterator[Finding]:
        node = site.leaf
        for _ in range(6):  # the reference may run on: torch.version.cuda.split
            name = site.module.qualname(node)
            if name in ("torch.version.cuda", "torch.version.hip"):
                yield from self._version(site, node)
                return
            if name in ("torch.has_cuda", "torch.backends.cuda.is_built", "torch._C.has_cuda"):
                yield from self._built(site, node)
                return
            if node.parent is None or node.parent.type != "attribute":
                return
            node = node.parent

    def _version(self, site: Site, node: Node) -> Iterator[Finding]:
        context, parent = site.context, node.parent
        if parent is None or needs_cuda(context, node) or self._is_checked(context, node):
            return
        called = parent.parent if parent.type == "argument_list" else None
        parsed = called is not None and called.type == "call" and self._PARSERS.match(text(Call(called).function))
        used = parent.type in ("attribute", "subscript") and not same(field(parent, "attribute"), node)
        ordered = parent.type == "comparison_operator" and any(
            c.type in ("<", ">", "<=", ">=") for c in parent.children
        )
        if not (parsed or used or ordered):
            return
        quote = "'" if _in_f_string(node) else '"'
        new = f"({text(node)} or {quote}0.0{quote})"
        yield context.finding(
            self,
            node,
            f"`{text(node)}` is None in a torch without CUDA; write `{new}`",
            Safety.SAFE,
            [site.module.replace(node, new)],
        )

    def _is_checked(self, context: Context, node: Node) -> bool:
        """`torch.version.cuda and torch.version.cuda.split(...)`, `if torch.version.cuda is not None:`."""
        from anydevice.rules.guards import conditions

        return any(truth and text(node) in text(condition) for condition, truth in conditions(node))

    def _built(self, site: Site, node: Node) -> Iterator[Finding]:
        context, called = site.context, node.parent
        whole = (
            called if called is not None and called.type == "call" and same(field(called, "function"), node) else node
        )
        if whole is node and text(node).endswith("is_built"):
            return
        owner = statement(whole)
        if owner.type == "expression_statement" and "print" in text(owner):
            return
        torch = context.placement.torch_name(node)
        new = f"{torch.text}.cuda.is_available()"
        yield context.finding(
            self,
            whole,
            f"says how torch was built, not that there is a GPU; write `{new}`",
            Safety.SAFE,
            [site.module.replace(whole, new), *torch.edits],
        )


def _in_f_string(node: Node) -> bool:
    current: Node | None = node
    while current is not None:
        if current.type == "interpolation":
            return True
        current = current.parent
    return False
