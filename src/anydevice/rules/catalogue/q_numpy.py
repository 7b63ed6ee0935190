"""Group Q, NumPy: tensors handed to it that were moved where it cannot read."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.home import Home
from anydevice.rules.residence import Residence, residence
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.source.syntax import text

_HEAD = "import torch\n"


class NumpyOfDeviceTensor(PythonRule):
    """`x.numpy()` of a tensor that was moved raises: NumPy only sees memory of the CPU.

    Instead: `x.cpu().numpy()`, which costs nothing for a tensor that is there already.
    """

    code = "ADQ14"
    name = "numpy-of-device-tensor"
    summary = "`.numpy()` of a tensor that was moved, without `.cpu()`"
    anchors = ("numpy",)
    needs = (r"\.to\(|\.cuda\(|device=", r"\n(?![^\n]*cpu\()[^\n]*\.numpy\(\)")
    examples = (
        Example(
            "an output",
            _HEAD + "net = torch.nn.Linear(2, 2).to(device)\nout = net(x.to(device))\nprint(out.detach().numpy())\n",
            _HEAD
            + "net = torch.nn.Linear(2, 2).to(device)\nout = net(x.to(device))\nprint(out.detach().cpu().numpy())\n",
        ),
    )
    leaves = (
        Leave(_HEAD + "out = x.to(device)\nprint(out.cpu().numpy())\n", "fetched first"),
        Leave(_HEAD + "out = torch.zeros(3)\nprint(out.numpy())\n", "on the CPU"),
        Leave("import numpy\nprint(x.numpy())\n", "nothing is known of it"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.method_call
        if call is None or call.receiver is None or call.keyword("force") is not None or call.positional:
            return
        where = residence(site.context)
        if not where.has_moves or not self._is_moved(where, call.receiver):
            return
        yield site.context.finding(
            self,
            call.node,
            f"NumPy cannot read the memory of a GPU; write `{text(call.receiver)[-40:]}.cpu().numpy()`",
            Safety.SAFE,
            [site.module.insert(call.receiver.end_byte, ".cpu()")],
        )

    def _is_moved(self, where: Residence, receiver: Node) -> bool:
        if where.runs_after_move(where.module.function(receiver)):
            return False  # what a module is fed is only assumed
        return where.of(receiver) is Home.DEVICE
