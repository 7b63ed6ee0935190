"""Group Q, inputs: batches that stay on the CPU while the model is moved."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.at_hand import device_at
from anydevice.rules.held import of_binding
from anydevice.rules.home import Home
from anydevice.rules.made import made
from anydevice.rules.meeting import Journey, meeting_of
from anydevice.rules.passing import uses_of
from anydevice.rules.residence import Residence, residence
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.rules.tensor_words import MAKERS, SCRIPT
from anydevice.source.calls import Call
from anydevice.source.names import Binding
from anydevice.source.syntax import field, first_named, statement, text

_HEAD = "import torch\nfrom torch import nn\n"
_NO_BATCH = re.compile(r"(?i)len|path|name|id(?:s|x)?\Z|index|meta|info|file|text|word|key|size|epoch|step")


class BatchNotMoved(PythonRule):
    """A model was moved, but what it is called with was not: batches of a loader come on the CPU.

    Instead: `net(x.to(device))`, and the targets with it. (nn.DataParallel moves its inputs itself.)
    """

    code = "ADQ09"
    name = "batch-not-moved"
    summary = "the model is moved, its inputs never are"
    anchors = (*MAKERS, "DataLoader", "to", "cuda")
    needs = (r"\.to\(|\.cuda\(|device=", (r"DataLoader|dataloader|backward\(|loader:", SCRIPT))
    examples = (
        Example(
            "a loop over a loader",
            _HEAD
            + "from torch.utils.data import DataLoader\ndevice = torch.device('mps')\nnet = nn.Linear(2, 2).to(device)\n"
            "for x, y in DataLoader(data, batch_size=4):\n    out = net(x)\n",
            _HEAD
            + "from torch.utils.data import DataLoader\ndevice = torch.device('mps')\nnet = nn.Linear(2, 2).to(device)\n"
            "for x, y in DataLoader(data, batch_size=4):\n    out = net(x.to(device))\n",
        ),
        Example(
            "the targets",
            _HEAD + "device = pick()\nnet = nn.Linear(2, 2).to(device)\nloss = nn.MSELoss()\n"
            "for x, y in train_loader:\n    print(loss(net(x.to(device)), y))\n",
            _HEAD + "device = pick()\nnet = nn.Linear(2, 2).to(device)\nloss = nn.MSELoss()\n"
            "for x, y in train_loader:\n    print(loss(net(x.to(device)), y.to(device)))\n",
        ),
        Example("a single batch", _HEAD + "net = nn.Linear(2, 2).to(pick())\nprint(net(torch.rand(3, 2)))\n"),
    )
    leaves = (
        Leave(_HEAD + "net = nn.Linear(2, 2).to(d)\nfor x, y in loader:\n    x = x.to(d)\n    net(x)\n", "moved"),
        Leave(
            _HEAD + "net = nn.DataParallel(nn.Linear(2, 2)).to(d)\nfor x, y in loader:\n    net(x)\n",
            "DataParallel moves inputs",
        ),
        Leave(_HEAD + "net = nn.Linear(2, 2)\nfor x, y in loader:\n    net(x)\n", "nothing is moved"),
        Leave(
            _HEAD + "net = nn.Linear(2, 2).to(d)\nfor batch in loader:\n    batch = move(batch, d)\n    net(batch)\n",
            "moved by a function",
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if residence(site.context).others_move or not residence(site.context).has_moves:
            return
        if site.word in ("DataLoader", "to", "cuda"):
            yield from _batches(site.context, self)
            return
        call, where = site.call, residence(site.context)
        if call is None or site.qualname != f"torch.{site.word}" or made(where, call, site.word) is not Home.CPU:
            return
        if where.is_made_at_construction(call.node):
            return
        found = meeting_of(where, call.node)
        if found is None or found.kind != "module" or where.runs_after_move(site.module.function(found.where)):
            return
        yield self.report(site.context, found.where, _carrier(found.where, where))

    def report(self, context: Context, call: Node, argument: Node | None) -> Finding:
        """The finding at a call; `argument` is what to move."""
        device = device_at(context, call)
        shown = device or "device"
        function = text(Call(call).function) if call.type == "call" else ""
        what = text(argument)[:30] if argument is not None else "the input"
        message = f"`{what}` is on the CPU, `{function or 'the other operand'}` was moved; write `{what}.to({shown})`"
        simple = argument is not None and argument.type in ("identifier", "call", "subscript", "attribute")
        if device is None or not simple or argument is None:
            return context.finding(self, call, message, Safety.MANUAL)
        return context.finding(
            self, call, message, Safety.UNSAFE, [context.module.insert(argument.end_byte, f".to({shown})")]
        )


def _carrier(call: Node, where: Residence) -> Node | None:
    """The argument of a call that is on the CPU."""
    if call.type != "call":
        return None
    return next(
        (a.value for a in Call(call).arguments if where.of(a.value) is Home.CPU and a.value.type != "tuple"), None
    )


_LOOP = re.compile(rb"(?m)^[ \t]*for[ \t]+(?P<targets>[^\n]*?)[ \t]+in[ \t]+(?P<source>[^\n]*):")
_NEXT = re.compile(rb"next\(\s*iter\(")


@lru_cache(maxsize=2)
def _batches(context: Context, rule: BatchNotMoved) -> tuple[Finding, ...]:
    """What the loops over loaders of a file feed to moved models, unmoved."""
    where, module = residence(context), context.module
    found: dict[int, Finding] = {}
    if b"oader" not in module.data:
        return ()
    loaders = set(re.findall(rb"(\w+)[ \t]*=[ \t]*(?:\w+\.)*DataLoader\(", module.data))
    for match in [*_LOOP.finditer(module.data), *_NEXT.finditer(module.data)]:
        source = match.groupdict().get("source")
        if source is not None and not (
            b"oader" in source or b"_dl" in source or loaders & set(re.findall(rb"\w+", source))
        ):
            continue
        for binding in _bound(context, match):
            if _NO_BATCH.search(text(binding.node)) or of_binding(where, binding) is not Home.CPU:
                continue
            if where.is_module_class(module.class_(binding.node)):
                continue
            meeting = uses_of(Journey(where), binding)
            if meeting is not None and meeting.kind in ("module", "operation", "in-place") and not meeting.calls:
                found.setdefault(meeting.where.id, rule.report(context, meeting.where, _carrier(meeting.where, where)))
    return tuple(found.values())


def _bound(context: Context, match: re.Match[bytes]) -> Iterator[Binding]:
    """The names that a loop (or `x, y = next(iter(...))`) binds."""
    module = context.module
    if match.re is _NEXT:
        leaf = module.leaf(match.start(), match.start() + 4)
        owner = statement(leaf) if leaf is not None else None
        inner = first_named(owner)
        target = field(inner, "left") if inner is not None and inner.type == "assignment" else None
    else:
        leaf = module.leaf(match.start("targets"), match.start("targets") + 1)
        loop = leaf
        while loop is not None and loop.type != "for_statement":
            loop = loop.parent
        target = field(loop, "left") if loop is not None else None
    if target is not None:
        yield from residence(context).bound_in(target)
