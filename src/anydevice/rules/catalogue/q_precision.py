"""Group Q, precision: double precision taken to devices that may not have it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.casts import cast_after, moves_before_cast
from anydevice.rules.home import Home
from anydevice.rules.moves import given
from anydevice.rules.numpy_types import is_array, is_double
from anydevice.rules.residence import residence
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.rules.tensor_words import SCRIPT
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, field, same, text

_HEAD = "import numpy as np\nimport torch\n"
_TORCH_DOUBLE = re.compile(r"(?:\w+\.)*(?:float64|double)\Z")


class Float64BeforeMove(PythonRule):
    """Double precision goes to a device that may not have it: mps has no float64, and raises at the move.

    NumPy computes in float64 unless told otherwise, so `torch.from_numpy(a).to(device).float()` works on CUDA and fails
    on a Mac. Instead: cast first, or in the same step: `.to(device=device, dtype=torch.float32)`.

    References: https://github.com/pytorch/pytorch/issues/79019
    """

    code = "ADQ15"
    name = "float64-before-move"
    summary = "float64 goes to a device that may lack it"
    anchors = ("from_numpy", "float64", "double", "as_tensor", "tensor", "DoubleTensor")
    needs = (
        r"from_numpy\(|float64|double\(|dtype=float|numpy",
        r"\.to\(|\.cuda\(|device=",
        (
            r"from_numpy\([^\n]*\)\.(?:to|cuda)\((?![^\n]*(?:astype|float32|dtype))",
            r"float64, *device|device=[^\n]*float64",
            r"\.double\(\)\.(?:to|cuda)\(",
            SCRIPT,
        ),
    )
    examples = (
        Example(
            "cast after the move",
            _HEAD + "x = torch.from_numpy(a).to(device).float()\n",
            _HEAD + "x = torch.from_numpy(a).to(device=device, dtype=torch.float32)\n",
        ),
        Example(
            "cast on the next line",
            _HEAD + "x = torch.from_numpy(np.linspace(0, 1, 5)).to(device)\nx = x.float()\nprint(x)\n",
            _HEAD + "x = torch.from_numpy(np.linspace(0, 1, 5)).to(device=device, dtype=torch.float32)\nprint(x)\n",
        ),
        Example("never cast", _HEAD + "a = np.random.rand(3)\nx = torch.from_numpy(a)\ny = x.to(device)\n"),
        Example("made there", _HEAD + "x = torch.zeros(3, dtype=torch.float64, device=device)\n"),
        Example("moved in one step", _HEAD + "x = x.to(device, torch.float64)\n"),
        Example("made, then moved", _HEAD + "x = torch.linspace(0, 1, 3, dtype=torch.float64)\nx = x.to(device)\n"),
        Example("cast there", _HEAD + "x = x.to(device).double()\n"),
    )
    leaves = (
        Leave(_HEAD + "x = torch.from_numpy(a).float().to(device)\n", "cast first"),
        Leave(_HEAD + "x = torch.from_numpy(np.zeros(3, dtype=np.float32)).to(device)\n", "not double"),
        Leave(_HEAD + "x = torch.from_numpy(np.arange(3)).to(device)\n", "integers"),
        Leave(_HEAD + "x = torch.from_numpy(a).to(device)\n", "nothing is known of it"),
        Leave(_HEAD + "x = torch.zeros(3, dtype=torch.float64)\nprint(x.sum())\n", "stays on the CPU"),
        Leave(_HEAD + "x = torch.tensor([0.5, 1.5]).to(device)\n", "Python numbers become float32"),
        Leave(_HEAD + "x = y.to('cpu', torch.float64)\n", "the CPU has it"),
        Leave(
            _HEAD + "dtype = torch.float32 if device.type == 'mps' else torch.float64\nx = x.to(device, dtype)\n",
            "decided by device",
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if site.is_import:
            return
        if site.word in ("from_numpy", "as_tensor", "tensor", "DoubleTensor"):
            if site.call is not None and site.qualname == f"torch.{site.word}" and site.call.positional:
                yield from self._array(site, site.call)
        elif site.word == "double" and site.method_call is not None and not site.method_call.arguments:
            yield from self._cast(site, site.method_call)
        elif _TORCH_DOUBLE.match(text(site.reference)) and (site.qualname or "").startswith("torch."):
            yield from self._dtype(site)

    # -- arrays ------------------------------------------------------------------------------------------------

    def _array(self, site: Site, call: Call) -> Iterator[Finding]:
        """A NumPy array on its way to the device."""
        value = call.positional[0].value
        known = True if site.word == "DoubleTensor" else is_double(residence(site.context), value)
        if site.word in ("tensor", "as_tensor") and not (known and is_array(residence(site.context), value)):
            return  # Python numbers become float32
        if known is False or call.keyword("dtype") is not None:
            return
        given = call.keyword("device")
        if given is not None and known and not _is_cpu(site.context, given.value):
            yield self._unmended(site.context, call.node, text(call.positional[0].value))
            return
        for move in moves_before_cast(site.context, call.node):
            yield from self._moved(site.context, move, known is True)

    def _moved(self, context: Context, move: Call, known: bool) -> Iterator[Finding]:
        argument = move.argument(0, "device")
        if argument is None or len(move.arguments) != 1 or _is_cpu(context, argument.value) or _asks_device(move.node):
            return
        if argument.name is None and not re.search(r"dev|cuda|gpu|rank", text(argument.value), re.IGNORECASE):
            return  # `x.to(other)` takes the dtype of the other tensor too
        cast = cast_after(context, move.node)
        if cast is None:
            if known:
                yield self._unmended(context, move.node, text(move.receiver or move.node))
            return
        removal, dtype = cast
        written = f"to(device={text(argument.value)}, dtype={context.placement.torch_name(move.node).text}.{dtype})"
        attribute = field(move.function, "attribute")
        assert attribute is not None
        edits: list[Edit] = [context.module.edit(attribute.start_byte, move.node.end_byte, written), removal]
        yield context.finding(
            self, move.node, f"float64 is moved, then cast: mps has no float64; write `.{written}`", Safety.SAFE, edits
        )

    def _unmended(self, context: Context, node: Node, what: str) -> Finding:
        shown = " ".join(what.split())
        shown = shown if len(shown) < 44 else f"...{shown[-40:]}"
        return context.finding(
            self,
            node,
            f"`{shown}` is float64, which mps does not have: cast it before it is moved (`.float()`), "
            "or compute it on the CPU",
            Safety.MANUAL,
        )

    # -- dtypes ------------------------------------------------------------------------------------------------

    def _cast(self, site: Site, call: Call) -> Iterator[Finding]:
        where = residence(site.context)
        if call.receiver is None or where.runs_after_move(site.module.function(call.node)) or _asks_device(call.node):
            return
        home = where.of(call.receiver)
        if home in (Home.DEVICE, Home.MOVED_MODULE) and not _returns_to_cpu(call.node):
            yield self._unmended(site.context, call.node, text(call.node))
        elif home in (Home.CPU, Home.MODULE, None):
            for move in moves_before_cast(site.context, call.node):
                yield from self._moved(site.context, move, True)

    def _dtype(self, site: Site) -> Iterator[Finding]:
        """`dtype=torch.float64` beside a device, or in a move."""
        argument = site.reference.parent
        holder = argument.parent if argument is not None and argument.type == "keyword_argument" else argument
        if holder is None or holder.type != "argument_list" or holder.parent is None or holder.parent.type != "call":
            return
        call = Call(holder.parent)
        if _asks_device(call.node):
            return
        if (site.module.qualname(call.function) or "") == "torch.set_default_dtype":
            if residence(site.context).has_moves:
                yield self._unmended(site.context, call.node, "every new tensor")
            return
        device = call.keyword("device")
        if (
            device is None
            and call.method == "to"
            and call.positional
            and not same(call.positional[0].value, site.reference)
        ):
            device = call.positional[0]
        if device is None:
            for move in moves_before_cast(site.context, call.node):
                yield from self._moved(site.context, move, True)
            return
        on_cpu = device.value.type in ("none", "string") or _is_cpu(site.context, device.value)
        if not on_cpu and not _returns_to_cpu(call.node):
            yield self._unmended(site.context, call.node, text(call.node))


def _asks_device(node: Node) -> bool:
    """Whether the code around decides by device already."""
    for parent in ancestors(node):
        if parent.type == "function_definition":
            return False
        if parent.type == "try_statement":
            return True
        if parent.type in ("if_statement", "elif_clause", "conditional_expression"):
            condition = field(parent, "condition") or parent
            if re.search(r"mps|cuda|cpu|float64|double|device", text(condition)):
                return True
    return False


def _is_cpu(context: Context, device: Node) -> bool:
    where = residence(context)
    return re.search(r"[\"'](?:cpu|meta)", text(device)) is not None or given(where, device) is Home.CPU


def _returns_to_cpu(node: Node) -> bool:
    return (
        node.parent is not None
        and node.parent.type == "attribute"
        and text(field(node.parent, "attribute") or node) == "cpu"
    )
