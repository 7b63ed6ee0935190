"""Group Q, indexing: tables on the CPU that are looked up with indices of another device."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.home import Home
from anydevice.rules.made import made
from anydevice.rules.meeting import meeting_of
from anydevice.rules.residence import residence
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.rules.tensor_words import INDEXED, MADE_HERE, MAKERS, SCRIPT
from anydevice.rules.trail import Meeting
from anydevice.source.calls import Call
from anydevice.source.syntax import field, text

_HEAD = "import torch\n"


class IndexDeviceMismatch(PythonRule):
    """A table on the CPU is indexed by a tensor of another device: "indices should be either on cpu or on the same device".

    The other way round is fine: a CPU index may index a tensor of any device. (`gather`, `index_select` and embeddings
    want both in one place.)

    Instead: `table.to(t.device)[t]`: move first, index second. Better: keep the table where the indices are.

    References: https://docs.pytorch.org/docs/stable/notes/cuda.html
    """

    code = "ADQ11"
    name = "index-device-mismatch"
    summary = "a CPU table is indexed by a tensor of another device"
    anchors = MAKERS
    needs = ((r"self\.\w+ *=[^\n]*" + MADE_HERE, SCRIPT), (INDEXED, SCRIPT))
    examples = (
        Example(
            "a schedule",
            _HEAD + "class Noise:\n    def __init__(self, n):\n        self.levels = torch.linspace(1, 0, n)\n"
            "    def level(self, t):\n        return self.levels[t]\n"
            "t = torch.randint(0, 9, (4,), device=device)\nprint(Noise(9).level(t))\n",
            _HEAD + "class Noise:\n    def __init__(self, n):\n        self.levels = torch.linspace(1, 0, n)\n"
            "    def level(self, t):\n        return self.levels.to(t.device)[t]\n"
            "t = torch.randint(0, 9, (4,), device=device)\nprint(Noise(9).level(t))\n",
        ),
        Example(
            "a palette",
            _HEAD
            + "palette = torch.tensor([[0, 0, 0], [255, 0, 0]])\nlabels = net(x.cuda()).argmax(1)\nimage = palette[labels]\n",
            _HEAD + "palette = torch.tensor([[0, 0, 0], [255, 0, 0]])\nlabels = net(x.cuda()).argmax(1)\n"
            "image = palette.to(labels.device)[labels]\n",
        ),
        Example(
            "a lookup",
            _HEAD + "table = torch.arange(9)\nt = t.to(device)\nprint(table.gather(0, t))\n",
            _HEAD + "table = torch.arange(9)\nt = t.to(device)\nprint(table.to(t.device).gather(0, t))\n",
        ),
    )
    leaves = (
        Leave(_HEAD + "x = torch.rand(9, device=device)\ni = torch.randperm(9)\nprint(x[i])\n", "a CPU index"),
        Leave(
            _HEAD + "table = torch.arange(9)\nt = t.to(device)\nprint(table[t.cpu()])\n", "the index comes back first"
        ),
        Leave(
            _HEAD + "table = torch.arange(9)\nt = t.to(device)\nprint(table.to(device)[t])\n",
            "the table is moved first",
        ),
        Leave(
            _HEAD + "table = torch.arange(9)\nt = t.to(device)\nprint(table[t.item()], table[: t.size(0)])\n",
            "a number",
        ),
        Leave(_HEAD + "table = torch.arange(9)\nfor t in range(3):\n    print(table[t])\n", "a loop's number"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.call
        where = residence(site.context)
        if call is None or not where.has_devices or site.qualname != f"torch.{site.word}":
            return
        if made(where, call, site.word) is not Home.CPU or where.is_made_at_construction(call.node):
            return
        found = meeting_of(where, call.node)
        if found is not None and found.kind == "index":
            yield self._report(site, found)

    def _report(self, site: Site, found: Meeting) -> Finding:
        table = self._table(found.where)
        index = found.partner
        simple = index.type in ("identifier", "attribute")
        device = f"{text(index)}.device" if simple else "the device of the index"
        shown = text(table)[:40] if table is not None else "the table"
        message = (
            f"`{shown}` is on the CPU and `{text(index)[:30]}` is not; write `{shown}.to({device})` before the lookup"
        )
        if table is None or not simple:
            return site.context.finding(self, found.where, message, Safety.MANUAL)
        edit = site.module.insert(table.end_byte, f".to({device})")
        return site.context.finding(self, found.where, message, Safety.SAFE, [edit])

    def _table(self, lookup: Node) -> Node | None:
        if lookup.type == "subscript":
            table = field(lookup, "value")
        else:
            call = Call(lookup)
            last = text(call.function).rsplit(".", 1)[-1]
            receiver = call.receiver
            module_function = receiver is not None and text(receiver) in ("torch", "F", "nn.functional", "functional")
            argument = call.argument(1 if last == "embedding" else 0, "weight" if last == "embedding" else "input")
            table = (
                receiver
                if receiver is not None and not module_function
                else argument.value
                if argument is not None
                else None
            )
        return table if table is not None and table.type in ("identifier", "attribute", "call", "subscript") else None
