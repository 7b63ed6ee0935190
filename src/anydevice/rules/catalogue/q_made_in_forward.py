"""Group Q, made in forward: tensors that are built on the CPU where the code around them works on another device."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.at_hand import device_at
from anydevice.rules.beside import anchor
from anydevice.rules.home import Home
from anydevice.rules.made import made
from anydevice.rules.meeting import meeting_of
from anydevice.rules.moves import move_target
from anydevice.rules.residence import residence
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.rules.tensor_words import LEGACY, MADE_ON_A_LINE, MAKERS, SCRIPT
from anydevice.rules.trail import Meeting
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, field, same, text

_DEVICES = re.compile(r"cuda|gpu|cpu|device|accelerator", re.IGNORECASE)


class FactoryWithoutDevice(PythonRule):
    """A tensor made in `forward` or in a loss, without `device=`, that then meets the tensors of the model.

    `torch.zeros(n)` makes its tensor on the CPU. Where it is added to, multiplied with, or given to a layer beside
    tensors of a GPU, torch raises "Expected all tensors to be on the same device". A tensor that only indexes, sizes
    or fills in another may stay on the CPU, and so may a single number (`torch.tensor(0.5)`).

    Instead: `device=x.device`, with a tensor of the same function.

    References: https://docs.pytorch.org/docs/stable/notes/cuda.html#best-practices
    """

    code = "ADQ01"
    name = "factory-without-device"
    summary = "a tensor made without `device=` meets tensors of another device"
    anchors = MAKERS
    needs = ((r"def forward\(", r"Loss\(|loss\(|cross_entropy\(", SCRIPT), (MADE_ON_A_LINE, SCRIPT))
    examples = (
        Example(
            "a mask in forward",
            "import torch\nfrom torch import nn\nclass Block(nn.Module):\n    def forward(self, scores):\n"
            "        n = scores.size(-1)\n        keep = torch.tril(torch.ones(n, n))\n"
            "        return scores.masked_fill(keep == 0, -1e9)\n",
            "import torch\nfrom torch import nn\nclass Block(nn.Module):\n    def forward(self, scores):\n"
            "        n = scores.size(-1)\n        keep = torch.tril(torch.ones(n, n, device=scores.device))\n"
            "        return scores.masked_fill(keep == 0, -1e9)\n",
        ),
        Example(
            "positions for an embedding",
            "import torch\nfrom torch import nn\nclass E(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.pos = nn.Embedding(9, 4)\n    def forward(self, ids):\n        return self.pos(torch.arange(ids.shape[1]))\n",
            "import torch\nfrom torch import nn\nclass E(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.pos = nn.Embedding(9, 4)\n    def forward(self, ids):\n"
            "        return self.pos(torch.arange(ids.shape[1], device=ids.device))\n",
        ),
        Example(
            "the state of a recurrent layer",
            "import torch\nfrom torch import nn\nclass R(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.rnn = nn.LSTM(3, 5)\n    def forward(self, x):\n        h = torch.zeros(1, x.size(1), 5)\n"
            "        c = torch.zeros(1, x.size(1), 5)\n        y, _ = self.rnn(x, (h, c))\n        return y\n",
            "import torch\nfrom torch import nn\nclass R(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.rnn = nn.LSTM(3, 5)\n    def forward(self, x):\n        h = torch.zeros(1, x.size(1), 5, device=x.device)\n"
            "        c = torch.zeros(1, x.size(1), 5, device=x.device)\n        y, _ = self.rnn(x, (h, c))\n        return y\n",
        ),
        Example(
            "a helper that makes it",
            "import numpy as np\nimport torch\nfrom torch import nn\ndef window(n):\n    return torch.from_numpy(np.hanning(n)).float()\n"
            "class W(nn.Module):\n    def forward(self, wave):\n        return wave * window(wave.shape[-1])\n",
            "import numpy as np\nimport torch\nfrom torch import nn\ndef window(n):\n    return torch.from_numpy(np.hanning(n)).float()\n"
            "class W(nn.Module):\n    def forward(self, wave):\n        return wave * window(wave.shape[-1]).to(wave.device)\n",
        ),
        Example(
            "labels of a loss",
            "import torch\nfrom torch import nn\nnet = nn.Linear(2, 1).to(device)\nbce = nn.BCEWithLogitsLoss()\n"
            "x = torch.rand(8, 2, device=device)\nloss = bce(net(x), torch.ones(8, 1))\n",
        ),
    )
    leaves = (
        Leave(
            "import torch\nfrom torch import nn\nclass A(nn.Module):\n    def forward(self, x):\n"
            "        return x + torch.zeros(3).to(x.device) + torch.zeros(3).type_as(x) + torch.ones(3, device=x.device)\n",
            "moved at once",
        ),
        Leave(
            "import torch\nfrom torch import nn\nclass A(nn.Module):\n    def forward(self, x):\n"
            "        return x[torch.randperm(x.size(0))] * torch.tensor(0.5)\n",
            "an index or a single number may stay on the CPU",
        ),
        Leave(
            "import torch\nfrom torch import nn\nclass A(nn.Module):\n    def forward(self, x):\n        h = torch.zeros(2)\n"
            "        if x.is_cuda:\n            h = h.cuda()\n        return x + h\n",
            "moved on a condition",
        ),
        Leave(
            "import torch\nfrom torch.utils.data import Dataset\nclass D(Dataset):\n    def __getitem__(self, i):\n"
            "        return self.x[i] + torch.randn(3)\n",
            "data is made on the CPU",
        ),
        Leave(
            "import torch\ntorch.set_default_device('mps')\nfrom torch import nn\nclass A(nn.Module):\n"
            "    def forward(self, x):\n        return x + torch.ones(3)\n",
            "factories follow a default",
        ),
        Leave("import numpy as np\ndef forward(x):\n    return x + np.zeros(3)\n", "not torch"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.call
        where = residence(site.context)
        if call is None or not where.has_devices or call.keyword("device") is not None:
            return
        if site.qualname != f"torch.{site.word}":
            return
        if made(where, call, site.word) is not Home.CPU or where.is_made_at_construction(call.node):
            return
        if on_a_condition(call.node) or self._is_moved_later(site, call):
            return
        found = meeting_of(where, call.node)
        if found is None or self._is_batch(site, found) or self._is_loss_weight(site, call, found):
            return
        outside = [node for node in found.calls if not where.same_function(node, call.node)]
        if outside:
            yield self._helper(site, call, found, outside[-1])
            yield self._call(site, found, outside[-1])
        else:
            yield self._direct(site, call, found)

    def _is_batch(self, site: Site, found: Meeting) -> bool:
        """A tensor given to a moved model by a script is a batch that was not moved: a rule of its own."""
        where = residence(site.context)
        return found.kind == "index" or (
            found.kind == "module" and not where.runs_after_move(site.module.function(found.where))
        )

    def _is_moved_later(self, site: Site, call: Call) -> bool:
        """`x = torch.zeros(3)`, then `x = x.to(device)`: who still uses the first x holds on to it by another name."""
        holder = call.node.parent
        target = field(holder, "left") if holder is not None and holder.type == "assignment" else None
        if target is None or target.type != "identifier":
            return False
        where, name = residence(site.context), text(target)
        return any(
            b.value is not None
            and b.node.start_byte > call.node.end_byte
            and b.value.type == "call"
            and same(b.scope, site.module.scope(target))
            and Call(b.value).receiver is not None
            and text(Call(b.value).receiver or target) == name
            and move_target(where, Call(b.value)) is not None
            for b in site.module.names.bindings(name)
        )

    def _is_loss_weight(self, site: Site, call: Call, found: Meeting) -> bool:
        """The weight of a loss, made elsewhere, is another rule's."""
        if found.where.type != "call" or not re.search(
            r"(?:cross_entropy|nll_loss|_logits)\Z", text(Call(found.where).function)
        ):
            return False
        function = site.module.function(found.where)
        return function is None or not residence(site.context).same_function(call.node, found.where)

    def _direct(self, site: Site, call: Call, found: Meeting) -> Finding:
        context = site.context
        name = anchor(residence(context), call.node, found.partner)
        if name is None:
            device = device_at(context, call.node)
            shown = device or "device"
            message = f"made on the CPU, meets {_shown(found)}; write `{_with_device(call, site.word, shown)}`"
            edits = [] if device is None else [_edit(site, call, device)]
            return context.finding(self, call.node, message, Safety.UNSAFE if edits else Safety.MANUAL, edits)
        edit = _edit(site, call, f"{name}.device")
        written = _with_device(call, site.word, f"{name}.device")
        return context.finding(
            self, call.node, f"made on the CPU, meets {_shown(found)}; write `{written}`", Safety.UNSAFE, [edit]
        )

    def _helper(self, site: Site, call: Call, found: Meeting, caller: Node) -> Finding:
        line = caller.start_point[0] + 1
        return site.context.finding(
            self,
            call.node,
            f"made on the CPU; line {line} uses it beside {_shown(found)}: take the device as an argument, or move it there",
            Safety.MANUAL,
        )

    def _call(self, site: Site, found: Meeting, caller: Node) -> Finding:
        context = site.context
        name = anchor(residence(context), caller, found.partner)
        made = text(Call(caller).function)
        if name is None:
            return context.finding(
                self,
                caller,
                f"`{made}` makes its tensor on the CPU, and it meets {_shown(found)}; add `.to(...)` with its device",
                Safety.MANUAL,
            )
        return context.finding(
            self,
            caller,
            f"`{made}` makes its tensor on the CPU, and it meets {_shown(found)}; write `.to({name}.device)` after the call",
            Safety.UNSAFE,
            [site.module.insert(caller.end_byte, f".to({name}.device)")],
        )


def on_a_condition(node: Node) -> bool:
    """Whether `node` runs only where some condition about devices holds (or does not)."""
    for parent in ancestors(node):
        if parent.type == "function_definition":
            return False
        if parent.type in ("if_statement", "elif_clause", "conditional_expression"):
            condition = field(parent, "condition") if parent.type != "conditional_expression" else parent
            if condition is not None and _DEVICES.search(text(condition)):
                return True
    return False


def _shown(found: Meeting) -> str:
    partner = " ".join(text(found.partner).split())
    shown = f"`{partner if len(partner) < 40 else partner[:37] + '...'}`"
    return f"the layer {shown}" if found.kind == "module" else shown


def _with_device(call: Call, word: str, device: str) -> str:
    function = text(call.function)
    if word in LEGACY or word == "from_numpy":
        return f"{function}(...).to({device})"
    return f"{function}(..., device={device})"


def _edit(site: Site, call: Call, device: str) -> Edit:
    if site.word in LEGACY or site.word == "from_numpy":
        return site.module.insert(call.node.end_byte, f".to({device})")
    offset, addition = call.insertion(f"device={device}")
    return site.module.insert(offset, addition)
