"""Group Q, optimizers: those built before their model is moved."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.order import move_after, prefixes
from anydevice.rules.residence import residence
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.syntax import statement, text

_HEAD = "import copy\nimport torch\nfrom torch import nn\n"
_OPTIMIZERS = (
    "Adam AdamW SGD RMSprop Adagrad Adadelta Adamax NAdam RAdam LBFGS ASGD SparseAdam Rprop Adafactor"
    " Lion Ranger LARS LAMB FusedAdam Muon"
)
_PARAMETERS = re.compile(r"(?<![\w.])((?:\w+\.)*\w+)\.(?:named_)?parameters\(\)")


class OptimizerBeforeMove(PythonRule):
    """An optimizer built before its model is moved.

    `Module.to` moves parameters, not the optimizer's state: what a step, or `optimizer.load_state_dict`, made before the
    move stays on the CPU, and the next step fails. Optimizers that make their state at once (Adagrad) fail every time.

    Instead: move the model first, then build the optimizer, then load its state.

    References: https://docs.pytorch.org/docs/stable/optim.html#constructing-it
    """

    code = "ADQ05"
    name = "optimizer-before-move"
    summary = "the optimizer is built before its model is moved"
    anchors = tuple(_OPTIMIZERS.split())
    examples = (
        Example(
            "a script",
            _HEAD
            + "model = nn.Linear(2, 2)\nopt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)\nmodel.to(device)\n",
        ),
        Example(
            "a trainer",
            _HEAD + "class Trainer:\n    def __init__(self, net, device):\n        self.net = net\n"
            "        self.opt = torch.optim.Adam(self.net.parameters())\n        self.net = self.net.to(device)\n",
        ),
        Example(
            "resumed before the move",
            _HEAD
            + "def resume(net, state):\n    opt = torch.optim.AdamW(net.parameters())\n    opt.load_state_dict(state)\n    net.cuda()\n",
        ),
    )
    leaves = (
        Leave(
            _HEAD + "net = nn.Linear(2, 2)\nnet.to(device)\nopt = torch.optim.Adam(net.parameters())\n",
            "after the move",
        ),
        Leave(
            _HEAD
            + "net = nn.Linear(2, 2).to(device)\nopt = torch.optim.Adam(net.parameters())\nnet.half()\nnet.to(device)\n",
            "moved when it was made",
        ),
        Leave(
            _HEAD + "net = nn.Linear(2, 2)\nopt = torch.optim.Adam(net.parameters())\nnet = other()\nnet.to(device)\n",
            "another model of the same name",
        ),
        Leave(
            _HEAD + "def build(net):\n    return torch.optim.Adam(net.parameters())\ndef move(net):\n    net.cuda()\n",
            "no order is known",
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.call
        if call is None or not call.positional:
            return
        where = residence(site.context)
        source = text(call.positional[0].value)
        function = site.module.function(call.node)
        for name in dict.fromkeys(_PARAMETERS.findall(source)):
            if function is not None and name in where.parameters(function):
                yield from self._made_for(site.context, function, name)
            move = next((m for part in prefixes(name) if (m := move_after(where, part, call.node)) is not None), None)
            if move is None:
                continue
            line = move.node.start_point[0] + 1
            yield site.context.finding(
                self,
                statement(call.node),
                f"built over the parameters of `{name}`, which line {line} moves: state made before that stays behind; move the "
                "model first, then build the optimizer (and load its state)",
                Safety.MANUAL,
            )
            return

    def _made_for(self, context: Context, function: Node, parameter: str) -> Iterator[Finding]:
        """Calls of a function that builds an optimizer for the model it is given, before that model is moved."""
        where = residence(context)
        for call in where.callers(function):
            given = next((a.value for name, a in where.matched(function, call) if name == parameter), None)
            if given is None or given.type not in ("identifier", "attribute"):
                continue
            move = move_after(where, text(given), call.node)
            if move is not None:
                line = move.node.start_point[0] + 1
                yield context.finding(
                    self,
                    statement(call.node),
                    f"builds an optimizer for `{text(given)}`, which line {line} moves: move the model first",
                    Safety.MANUAL,
                )
