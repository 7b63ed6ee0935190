"""Group P: what Python and torch no longer understand, met in code of 2017 to 2019 that is tied to CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.source.calls import Call
from anydevice.source.module import Module
from anydevice.source.syntax import ancestors, field, same, text


class AsyncKeyword(PythonRule):
    """`x.copy_(y, async=True)`: `async` is a keyword since Python 3.7, so that the file cannot even be parsed.

    Instead: `non_blocking=True`, the same argument since torch 0.4. (`.cuda(async=True)` is another rule's.)
    """

    code = "ADP01"
    name = "async-argument"
    summary = "`async` is a keyword since Python 3.7"
    anchors = ("async",)
    needs = (r"\basync\s*=",)
    examples = (
        Example("a copy", "import torch\nx.copy_(y, async=True)\n", "import torch\nx.copy_(y, non_blocking=True)\n"),
        Example(
            "a move", "import torch\nx = x.to(d, async = flag)\n", "import torch\nx = x.to(d, non_blocking = flag)\n"
        ),
    )
    leaves = (
        Leave("import torch\nx.copy_(y, non_blocking=True)\n", "the name it has now"),
        Leave("async def f():\n    pass\nx.to(d)\n", "the keyword"),
        Leave("import torch\nx.cuda(async=True)\n", "another rule's"),
    )
    _COPIES = frozenset({"copy_", "to", "type", "type_as", "_copy"})

    def check(self, site: Site) -> Iterator[Finding]:
        argument = site.keyword
        call = argument.node.parent.parent if argument is not None and argument.node.parent is not None else None
        if argument is None or call is None or call.type != "call" or Call(call).method not in self._COPIES:
            return
        yield site.context.finding(
            self,
            argument.node,
            f"not valid since Python 3.7; write `non_blocking={text(argument.value)}`",
            Safety.SAFE,
            [site.module.replace(site.leaf, "non_blocking")],
        )


class LossIndexed(PythonRule):
    """`loss.data[0]`: a loss has no dimension since torch 0.4, and indexing it raises IndexError.

    Instead: `loss.item()`, which also takes the one element of an older tensor.
    """

    code = "ADP02"
    name = "loss-indexed"
    summary = "a loss has no dimension to index since torch 0.4"
    anchors = ("backward", "Variable")
    needs = (r"\.data(?:\.\w+\(\))*\[0\]",)
    examples = (
        Example(
            "a loss",
            "import torch\nloss = criterion(y, t)\nloss.backward()\ntotal += loss.data[0]\n",
            "import torch\nloss = criterion(y, t)\nloss.backward()\ntotal += loss.item()\n",
        ),
        Example(
            "through numpy",
            "import torch\nself.loss_G.backward()\nprint(self.loss_G.data.cpu().numpy()[0])\n",
            "import torch\nself.loss_G.backward()\nprint(self.loss_G.item())\n",
        ),
        Example(
            "a rate",
            "import torch\nfrom torch.autograd import Variable\nprec1, prec5 = accuracy(y, t)\nm.update(prec1.data[0], 1)\n",
            "import torch\nfrom torch.autograd import Variable\nprec1, prec5 = accuracy(y, t)\nm.update(prec1.item(), 1)\n",
        ),
    )
    leaves = (
        Leave("import torch\nloss.backward()\nfirst = x.data[0]\n", "not a loss"),
        Leave(
            "import torch\nlosses = F.mse_loss(y, t, reduction='none')\nlosses.mean().backward()\nn = losses.data[0]\n",
            "one value for each sample",
        ),
        Leave("import torch\nx.backward()\nloss = history.data[0]\n", "what is assigned"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        for owner, indexed in _indexed_losses(site.module):
            yield site.context.finding(
                self,
                indexed,
                f"a loss has no dimension to index since torch 0.4; write `{text(owner)}.item()`",
                Safety.UNSAFE,
                [site.module.edit(owner.end_byte, indexed.end_byte, ".item()")],
            )


_LOSS = re.compile(r"(?i)(?:^|[._])(?:\w*loss\w*|\w*err(?:or)?\w*|\w*cost\w*|prec\d*|acc\w*|top\d|kld?)(?:\[.*\])?\Z")
_MADE = re.compile(
    r"(?i)criteri|loss|crit\b|cross_entropy|mean\(\)|sum\(\)|accuracy|precision|cost|bce|mse|nll|entropy"
)
_INDEXED = re.compile(rb"\.data(?:\.\w+\(\))*\[0\]")
_COPIES_OUT = frozenset({"cpu", "numpy", "detach", "tolist"})


@lru_cache(maxsize=2)
def _indexed_losses(module: Module) -> tuple[tuple[Node, Node], ...]:
    """(`loss`, `loss.data[0]`) for each that is one number."""
    found = []
    for match in _INDEXED.finditer(module.data):
        leaf = module.leaf(match.start() + 1, match.start() + 5)
        attribute = leaf.parent if leaf is not None and leaf.type == "identifier" else None
        owner = field(attribute, "object") if attribute is not None and attribute.type == "attribute" else None
        indexed = _subscript(attribute) if attribute is not None else None
        if owner is not None and indexed is not None and _LOSS.search(text(owner)) and _is_scalar(module, text(owner)):
            found.append((owner, indexed))
    return tuple(found)


def _subscript(node: Node) -> Node | None:
    """The subscript at the end of `loss.data.cpu().numpy()[0]`."""
    while (parent := node.parent) is not None:
        if parent.type == "subscript" and same(field(parent, "value"), node):
            return parent
        call = parent.parent
        if parent.type != "attribute" or call is None or call.type != "call" or Call(call).method not in _COPIES_OUT:
            return None
        node = call
    return None


def _is_scalar(module: Module, name: str) -> bool:
    """Whether a backward call, or what the name is made by, shows that it is one number."""
    spelled = re.escape(name).encode()
    if re.search(rb"(?<![\w.])" + spelled + rb"\.backward\(", module.data):
        return True
    before, after = rb"(?m)^[ \t]*(?:[\w., \[\]]*,[ \t]*)?", rb"(?:[ \t]*,[\w., \[\]]*)?[ \t]*\+?=(?!=)[ \t]*([^\n]+)"
    made = re.findall(before + spelled + after, module.data)
    return bool(made) and all(
        _MADE.search(value.decode("utf-8", "replace")) and not re.search(rb"reduc\w+\s*=\s*(?:False|[\"']none)", value)
        for value in made
    )


class VolatileVariable(PythonRule):
    """`Variable(x, volatile=True)` has no effect since torch 0.4: gradients are recorded, and memory runs out.

    Instead: the evaluation under `with torch.no_grad():`.
    """

    code = "ADP03"
    name = "volatile-variable"
    summary = "`volatile` has had no effect since torch 0.4"
    anchors = ("volatile",)
    needs = (r"volatile\s*=",)
    examples = (
        Example(
            "an evaluation",
            "import torch\nfrom torch.autograd import Variable\nx = Variable(x.cuda(), volatile=True)\n",
        ),
    )
    leaves = (
        Leave("import torch\nd = Data(x, volatile=True)\n", "an argument of one's own"),
        Leave("import torch\nfrom torch.autograd import Variable\nx = Variable(x, volatile=False)\n", "off"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        argument = site.keyword
        call = argument.node.parent.parent if argument is not None and argument.node.parent is not None else None
        if argument is None or call is None or call.type != "call" or text(argument.value) == "False":
            return
        function = field(call, "function")
        if function is None or not text(function).endswith("Variable") or "backward" in text(call):
            return
        yield site.context.finding(
            self,
            argument.node,
            f"has had no effect since torch 0.4: drop `{text(argument.node)}` and put the evaluation under "
            "`with torch.no_grad():`",
            Safety.MANUAL,
        )


class RemovedFfi(PythonRule):
    """`torch.utils.ffi` was removed in torch 1.0; what it built (`create_extension`) was C and CUDA of the old TH library.

    Instead: `torch.utils.cpp_extension`; for NMS, ROI pooling and ROI align `torchvision.ops`, which every device has.
    """

    code = "ADP04"
    name = "removed-ffi"
    summary = "torch.utils.ffi was removed in torch 1.0"
    anchors = ("ffi",)
    needs = ("torch.utils.ffi",)
    examples = (
        Example("a build", "from torch.utils.ffi import create_extension\n"),
        Example("what was built", "import torch\nfrom torch.utils.ffi import _wrap_function\n"),
    )
    leaves = (Leave("import cffi\nffi = cffi.FFI()\n", "not torch"),)

    def check(self, site: Site) -> Iterator[Finding]:
        dotted = site.leaf.parent
        if dotted is None or not text(dotted).startswith("torch.utils.ffi"):
            return
        statement = next((a for a in [dotted, *ancestors(dotted)] if a.type.startswith("import")), dotted)
        yield site.context.finding(
            self,
            statement,
            "removed in torch 1.0: use `torch.utils.cpp_extension`; `torchvision.ops` has `nms`, `roi_align`, "
            "`roi_pool` and `deform_conv2d` for every device",
            Safety.MANUAL,
        )


class Python2Source(PythonRule):
    """A file in Python 2 cannot be run with any torch that knows of other devices than CUDA.

    Instead: convert it (`2to3 -w FILE`, which Pythons before 3.13 bring), then scan again. The rest of the file is scanned and mended all the same.
    """

    code = "ADP05"
    name = "python-2-source"
    summary = "Python 2, which no torch since 1.5 runs on"
    anchors = ("cuda",)
    text_anchors = ("cuda",)
    needs = (
        "torch",
        r"\n[ \t]*(?:if\b.*:[ \t]*|else:[ \t]*)?(?:print[ \t]+[^\s(=.,)\]]|print[ \t]*>>|exec[ \t]+[\"'\w]|except\b[^:\n(]*,|raise\b[^(\n]*,)",
    )
    examples = (
        Example("a print statement", "import torch\nprint 'using', x\nx = x.cuda()\n"),
        Example("an except clause", "import torch\ntry:\n    x = x.cuda()\nexcept RuntimeError, e:\n    pass\n"),
    )
    leaves = (
        Leave("import torch\nprint('x')\nprint (x)\nx = x.cuda()\n", "Python 3"),
        Leave("print x\n", "no torch on CUDA in it"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        node = _python_2(site.module)
        if node is not None:
            yield site.context.finding(
                self,
                node,
                "Python 2, which no torch since 1.5 runs on: convert the file (`2to3 -w` of a Python before 3.13) and scan again",
                Safety.MANUAL,
            )


_STATEMENTS = re.compile(
    rb"""(?m)^[ \t]*(?:if\b[^\n#]*:[ \t]*|else:[ \t]*)?"""
    rb"""(?P<word>print(?=[ \t]+[^\s(=.,)\]]|[ \t]*>>)|exec(?=[ \t]+["'\w])|except(?=[ \t]+[\w.]+[ \t]*,[ \t]*\w+[ \t]*:)"""
    rb"""|raise(?=[ \t]+[\w.]+,[ \t]*\S))"""
)


@lru_cache(maxsize=2)
def _python_2(module: Module) -> Node | None:
    """The first statement of `module` that only Python 2 can parse."""
    if b"torch" not in module.data:
        return None
    for match in _STATEMENTS.finditer(module.data):
        leaf = module.leaf(*match.span("word"))
        for node in [leaf, *ancestors(leaf)] if leaf is not None else []:
            if node.type in ("print_statement", "exec_statement"):
                return node
            if node.type in ("except_clause", "raise_statement"):
                return node if b"," in (node.text or b"").split(b":")[0] else None
            if node.type in ("string", "comment", "block", "module"):
                break
    return None
