"""Group Q, losses: their weights, which nobody moves."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.at_hand import device_at
from anydevice.rules.home import Home
from anydevice.rules.moves import moves_of
from anydevice.rules.order import assigned_name
from anydevice.rules.residence import Residence, residence
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.source.calls import Argument, Call
from anydevice.source.syntax import field, first_named, same, statement, text

_HEAD = "import copy\nimport torch\nfrom torch import nn\n"


class LossTensorNotMoved(PythonRule):
    """Class weights given to a loss stay on the CPU: the loss is a module, and nobody moves it.

    Instead: `nn.CrossEntropyLoss(weight=w).to(device)`: the weight is a buffer of the loss.
    """

    code = "ADQ07"
    name = "loss-tensor-not-moved"
    summary = "the weights of a loss stay on the CPU"
    anchors = (
        "CrossEntropyLoss",
        "NLLLoss",
        "NLLLoss2d",
        "BCELoss",
        "BCEWithLogitsLoss",
        "MultiMarginLoss",
        "MultiLabelSoftMarginLoss",
        "cross_entropy",
        "nll_loss",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
    )
    examples = (
        Example(
            "weights of classes",
            _HEAD + 'device = torch.device("cpu" if args.cpu else "mps")\nw = torch.tensor([1.0, 4.0])\n'
            "criterion = nn.CrossEntropyLoss(weight=w)\nnet.to(device)\n",
            _HEAD + 'device = torch.device("cpu" if args.cpu else "mps")\nw = torch.tensor([1.0, 4.0])\n'
            "criterion = nn.CrossEntropyLoss(weight=w).to(device)\nnet.to(device)\n",
        ),
        Example(
            "no device in sight",
            _HEAD + "def make():\n    return nn.BCEWithLogitsLoss(pos_weight=torch.ones(3) * 2)\nnet.to(pick())\n",
        ),
        Example(
            "a function",
            _HEAD + "import torch.nn.functional as F\nw = torch.ones(3)\nout = net(x.to(device)).to(device)\n"
            "loss = F.cross_entropy(out, y, weight=w)\n",
            _HEAD + "import torch.nn.functional as F\nw = torch.ones(3)\nout = net(x.to(device)).to(device)\n"
            "loss = F.cross_entropy(out, y, weight=w.to(out.device))\n",
        ),
    )
    leaves = (
        Leave(
            _HEAD + "net.to(device)\nc = nn.CrossEntropyLoss(weight=torch.ones(3)).to(device)\n",
            "moved when it is made",
        ),
        Leave(
            _HEAD + "net.to(device)\nc = nn.CrossEntropyLoss(weight=torch.ones(3).to(device))\n", "its weight is moved"
        ),
        Leave(_HEAD + "net.to(device)\nc = nn.CrossEntropyLoss(weight=torch.ones(3))\nc.to(device)\n", "moved later"),
        Leave(_HEAD + "net.to(device)\nc = nn.CrossEntropyLoss(ignore_index=0)\n", "has no weight"),
        Leave(
            _HEAD + "net.to(device)\nc = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0))\n",
            "a single number may stay",
        ),
        Leave(
            _HEAD + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.c = nn.CrossEntropyLoss(weight=torch.ones(3))\nA().to(device)\n",
            "moves with the module that holds it",
        ),
        Leave(_HEAD + "c = nn.CrossEntropyLoss(weight=torch.ones(3))\n", "nothing is moved at all"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.call
        name = site.qualname or ""
        if call is None or not call.arguments or not name.startswith("torch.nn."):
            return
        weights = self._weights(site, call)
        where = residence(site.context)
        weight = next((a for a in weights if where.of(a.value) is Home.CPU), None)
        if weight is None:
            return
        if site.word[0].islower():
            yield from self._function(site, call, weight)
        elif not self._moves(site, call):
            yield self._module(site, call, weight)

    def _weights(self, site: Site, call: Call) -> list[Argument]:
        position = None if site.word in ("MultiMarginLoss",) else 2 if site.word[0].islower() else 0
        found = [call.keyword("weight"), call.keyword("pos_weight")]
        if position is not None and position < len(call.positional):
            found.append(call.positional[position])
        return [a for a in found if a is not None]

    def _function(self, site: Site, call: Call, weight: Argument) -> Iterator[Finding]:
        where = residence(site.context)
        output = call.argument(0, "input")
        if output is None or where.of(output.value) is not Home.DEVICE or self._is_made_here(site, weight):
            return
        shown = text(output.value) if output.value.type in ("identifier", "attribute") else None
        moved = f"{text(weight.value)}.to({shown or 'input'}.device)"
        message = f"the weight `{text(weight.value)[:40]}` is on the CPU, the input is not; write `{moved}`"
        if shown is None or weight.value.type not in ("identifier", "attribute", "call", "subscript"):
            yield site.context.finding(self, call.node, message, Safety.MANUAL)
            return
        yield site.context.finding(
            self, call.node, message, Safety.UNSAFE, [site.module.insert(weight.value.end_byte, f".to({shown}.device)")]
        )

    def _is_made_here(self, site: Site, weight: Argument) -> bool:
        """Whether the weight is made in the same function: then its factory is to blame."""
        function = site.module.function(site.leaf)
        if function is None:
            return False
        if weight.value.type == "call":
            return True
        bindings = residence(site.context).reaching(weight.value) if weight.value.type == "identifier" else []
        return any(same(b.scope, function) and b.kind == "assignment" for b in bindings)

    def _moves(self, site: Site, call: Call) -> bool:
        """Whether the loss gets to the device, as far as this file tells."""
        where, module = residence(site.context), site.module
        parent = call.node.parent
        if parent is not None and parent.type == "attribute":
            return True
        if not where.has_moves:
            return True
        if where.is_module_class(module.class_(call.node)) and not _is_script(where, call.node):
            return True
        kept = assigned_name(call.node)
        return kept is not None and bool(moves_of(where, kept, call.node))

    def _module(self, site: Site, call: Call, weight: Argument) -> Finding:
        context = site.context
        device = device_at(context, call.node)
        shown = device or "device"
        message = (
            f"the weight `{text(weight.value)[:40]}` stays on the CPU; write `{text(call.function)}(...).to({shown})`"
        )
        edits = [] if device is None else [site.module.insert(call.node.end_byte, f".to({device})")]
        return context.finding(self, call.node, message, Safety.SAFE if edits else Safety.MANUAL, edits)


def _is_script(where: Residence, node: Node) -> bool:
    """Whether a node of a module class is made for a moment only: no attribute of the module keeps it."""
    holder = statement(node)
    inner = first_named(holder)
    left = field(inner, "left") if inner is not None and inner.type == "assignment" else None
    return left is None or not text(left).startswith("self.")
