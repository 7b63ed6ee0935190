"""Group Q, models: those that are never moved while their inputs are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.at_hand import device_at
from anydevice.rules.classes import module_classes
from anydevice.rules.handed import takers, unmoved
from anydevice.rules.home import Home
from anydevice.rules.residence import Residence, residence
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.rules.tensor_words import SCRIPT
from anydevice.source.syntax import field, statement, text

_HEAD = "import torch\nfrom torch import nn\n"


class ModuleNotMoved(PythonRule):
    """A model is called with an input that was moved, but nothing moves the model.

    `torch.load(..., map_location=device)` does not: `load_state_dict` copies into the parameters where they are.

    Instead: `net = Net().to(device)`.
    """

    code = "ADQ08"
    name = "module-not-moved"
    summary = "the inputs are moved, the model never is"
    anchors = ("to", "cuda", "device")
    needs = (r"nn\.|load_state_dict\(", r"\.to\(|\.cuda\(|device", SCRIPT)
    examples = (
        Example(
            "a script",
            _HEAD + "net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())\nx = torch.rand(1, 2).to(device)\nprint(net(x))\n",
        ),
        Example(
            "a device of its own",
            _HEAD + 'device = torch.device("mps" if args.mps else "cpu")\nnet = nn.Linear(2, 2)\n'
            "print(net(torch.rand(1, 2, device=device)))\n",
            _HEAD + 'device = torch.device("mps" if args.mps else "cpu")\nnet = nn.Linear(2, 2).to(device)\n'
            "print(net(torch.rand(1, 2, device=device)))\n",
        ),
        Example(
            "handed to a function",
            _HEAD
            + "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(2, 2)\n"
            "    def forward(self, x):\n        return self.fc(x)\n"
            "def run(model, x):\n    return model(x.cuda())\nnet = Net()\nrun(net, torch.rand(1, 2))\n",
        ),
    )
    leaves = (
        Leave(_HEAD + "net = nn.Linear(2, 2)\nnet.to(device)\nprint(net(torch.rand(1, 2).to(device)))\n", "moved"),
        Leave(
            _HEAD + "net = nn.Linear(2, 2)\nnet = accelerator.prepare(net)\nprint(net(x.to(device)))\n",
            "another library moves it",
        ),
        Leave(_HEAD + "net = nn.Linear(2, 2)\nput(net)\nprint(net(x.to(device)))\n", "a function may move it"),
        Leave(_HEAD + "loss = nn.MSELoss()\nprint(loss(a.to(device), b.to(device)))\n", "has nothing to move"),
        Leave(_HEAD + "net = nn.Linear(2, 2)\nprint(net(x.to('cpu')))\n", "all on the CPU"),
        Leave(_HEAD + "net = nn.Linear(2, 2)\nprint(net(x.to(torch.float32)))\n", "no move"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        where = residence(site.context)
        if where.others_move or not _made_here(site.context):
            return
        value = self._moved_value(where, site)
        if value is None:
            return
        for call in takers(where, value):
            for binding in unmoved(where, call):
                if "deepcopy(" not in text(statement(binding)):  # a copy is another rule's
                    yield self._report(site.context, binding, value)

    def _moved_value(self, where: Residence, site: Site) -> Node | None:
        """The tensor that a site moves or makes on a device."""
        if site.word == "device":
            if site.keyword is None or site.leaf.parent is None or site.leaf.parent.parent is None:
                return None
            node = site.leaf.parent.parent.parent
        else:
            node = site.method_call.node if site.method_call is not None else None
        if node is None or node.type != "call" or where.runs_after_move(site.module.function(node)):
            return None
        return node if where.of(node) is Home.DEVICE else None

    def _report(self, context: Context, binding: Node, value: Node) -> Finding:
        holder = binding.parent
        made = field(holder, "right") if holder is not None and holder.type == "assignment" else None
        name = text(binding)
        line = value.start_point[0] + 1
        device = device_at(context, made if made is not None else binding)
        shown = device or "device"
        message = (
            f"`{name}` is called with what line {line} moves, but is never moved itself; write `.to({shown})` here"
        )
        if made is None or made.type != "call" or device is None:
            return context.finding(self, statement(binding), message, Safety.MANUAL)
        return context.finding(
            self, statement(binding), message, Safety.UNSAFE, [context.module.insert(made.end_byte, f".to({shown})")]
        )


_MADE = re.compile(rb"(?m)^[ \t]*(?:self\.)?\w+[ \t]*=[ \t]*((?:\w+\.)*(\w+))\(")


@lru_cache(maxsize=2)
def _made_here(context: Context) -> bool:
    """Whether a file makes modules outside of module classes and leaves them where they are."""
    where, module = residence(context), context.module
    if not any(word in module.data for word in (b"nn.", b"models.", b"from torch.nn import", b"(Module)")):
        return False
    own = [text(field(class_, "name") or class_) for class_ in module_classes(context)]
    makers = re.compile("|".join([r"nn\.[A-Z]", r"models\.", *(rf"\b{name}\(" for name in own)]))
    taken = b" ".join(re.findall(rb"from torch[\w.]* import ([^\n]*)", module.data)).decode()
    for match in _MADE.finditer(module.data):
        name = match.group(2).decode()
        if name not in own and b"nn." not in match.group(1) and b"models." not in match.group(1):
            made_by = (
                [b.value for b in module.names.bindings(name) if b.value is not None]
                if b"def " + match.group(2) + b"(" in module.data
                else []
            )
            if name not in taken and not any(makers.search(text(function)) for function in made_by):
                continue
        leaf = module.leaf(match.start(1), match.end(1))
        while leaf is not None and leaf.type != "call":
            leaf = leaf.parent
        if leaf is not None and where.of(leaf) is Home.MODULE and not where.is_module_class(module.class_(leaf)):
            return True
    return False
