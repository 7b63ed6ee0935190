"""Group Q, moves whose result is thrown away."""

from __future__ import annotations

from collections.abc import Iterator

from anydevice.finding import Finding, Safety
from anydevice.rules.home import Home
from anydevice.rules.moves import move_target
from anydevice.rules.residence import residence
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.source.syntax import text


class DiscardedMove(PythonRule):
    """`x.to(device)` as a statement: a tensor is not moved in place, the result is thrown away.

    Instead: `x = x.to(device)`. (Modules are moved in place; for them the statement is right.)
    """

    code = "ADQ10"
    name = "discarded-move"
    summary = "the moved tensor is thrown away"
    anchors = ("to", "cuda")
    needs = (
        r"from_numpy\(|\.tensor\(|\.zeros\(|\.ones\(|\.rand|\.arange\(|\.full\(|\.eye\(|linspace\(|\.empty\(|Tensor\(|oader",
        r"\n[ \t]*(?!self\b)[\w.]+\.(?:to|cuda)\([^\n]*\)[ \t]*(?:#[^\n]*)?\n",
    )
    examples = (
        Example(
            "a tensor",
            "import torch\nx = torch.zeros(3)\nx.to(device)\n",
            "import torch\nx = torch.zeros(3)\nx = x.to(device)\n",
        ),
        Example(
            "a batch",
            "import torch\nfrom torch.utils.data import DataLoader\nfor x, y in DataLoader(data):\n    x.to(device)\n",
            "import torch\nfrom torch.utils.data import DataLoader\nfor x, y in DataLoader(data):\n    x = x.to(device)\n",
        ),
    )
    leaves = (
        Leave("import torch\nmodel = torch.nn.Linear(2, 2)\nmodel.to(device)\n", "a module"),
        Leave("import torch\nthing.to(device)\n", "may be a module"),
        Leave("import torch\nx = torch.zeros(3)\ny = x.to(device)\n", "kept"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.method_call
        owner = call.node.parent if call is not None else None
        if call is None or owner is None or owner.type != "expression_statement" or call.receiver is None:
            return
        where = residence(site.context)
        if call.receiver.type not in ("identifier", "attribute") or where.of(call.receiver) not in (
            Home.CPU,
            Home.SCALAR,
        ):
            return
        if move_target(where, call) in (Home.DEVICE, Home.PLACED):
            name = text(call.receiver)
            yield site.context.finding(
                self,
                call.node,
                f"tensors are not moved in place; write `{name} = {text(call.node)[:60]}`",
                Safety.UNSAFE,
                [site.module.insert(call.node.start_byte, f"{name} = ")],
            )
