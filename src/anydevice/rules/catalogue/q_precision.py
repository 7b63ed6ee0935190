"""Group Q, precision: double precision taken to devices that may not have it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.residence import Home, Residence, residence
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.rules.tensor_words import SCRIPT
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, field, first_named, same, statement, strip_parens, text

_HEAD = "import numpy as np\nimport torch\n"
_DOUBLE = re.compile(
    r"(?:(?:torch|np|numpy)\.)?(?:float64|double|float_)\Z|[\"'](?:float64|double|f8|d)[\"']\Z|float\Z"
)
_TORCH_DOUBLE = re.compile(r"(?:\w+\.)*(?:float64|double)\Z")
_CASTS = {
    "float": "float32",
    "half": "float16",
    "bfloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "bool": "bool",
    "byte": "uint8",
}
# NumPy functions that give float64 whatever they are given (unless `dtype=` says otherwise).
_ALWAYS = frozenset(
    [
        "linspace",
        "logspace",
        "geomspace",
        "random.rand",
        "random.randn",
        "random.random",
        "random.random_sample",
        "random.normal",
        "random.uniform",
        "random.standard_normal",
        "random.beta",
        "random.gamma",
        "random.exponential",
        "hanning",
        "hamming",
        "blackman",
        "kaiser",
        "fft.fftfreq",
    ]
)
_BY_SHAPE = frozenset({"zeros", "ones", "empty", "eye", "identity"})
# ... and those whose result is as their first argument, integers becoming float64.
_AS_ARGUMENT = frozenset(
    [
        "sin",
        "cos",
        "tan",
        "exp",
        "log",
        "log2",
        "sqrt",
        "tanh",
        "mean",
        "std",
        "cumsum",
        "cumprod",
        "concatenate",
        "stack",
        "vstack",
        "hstack",
        "array",
        "asarray",
        "ascontiguousarray",
        "copy",
        "clip",
        "abs",
        "transpose",
        "expand_dims",
        "squeeze",
        "repeat",
        "tile",
        "flip",
        "meshgrid",
        "outer",
        "dot",
        "matmul",
    ]
)
_ALWAYS_REAL = frozenset({"sin", "cos", "tan", "exp", "log", "log2", "sqrt", "tanh", "mean", "std"})
_GENERATOR = frozenset(["normal", "uniform", "random", "standard_normal", "beta", "gamma", "exponential"])


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
        known = True if site.word == "DoubleTensor" else _is_double(residence(site.context), value)
        if site.word in ("tensor", "as_tensor") and not (known and _is_array(residence(site.context), value)):
            return  # Python numbers become float32
        if known is False or call.keyword("dtype") is not None:
            return
        given = call.keyword("device")
        if given is not None and known and not _is_cpu(site.context, given.value):
            yield self._unmended(site.context, call.node, text(call.positional[0].value))
            return
        for move in _moves(site.context, call.node):
            yield from self._moved(site.context, move, known is True)

    def _moved(self, context: Context, move: Call, known: bool) -> Iterator[Finding]:
        argument = move.argument(0, "device")
        if argument is None or len(move.arguments) != 1 or _is_cpu(context, argument.value) or _asks_device(move.node):
            return
        if argument.name is None and not re.search(r"dev|cuda|gpu|rank", text(argument.value), re.IGNORECASE):
            return  # `x.to(other)` takes the dtype of the other tensor too
        cast = _cast_after(context, move.node)
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
            for move in _moves(site.context, call.node):
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
            for move in _moves(site.context, call.node):
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
    return re.search(r"[\"'](?:cpu|meta)", text(device)) is not None or where.given(device) is Home.CPU


def _returns_to_cpu(node: Node) -> bool:
    return (
        node.parent is not None
        and node.parent.type == "attribute"
        and text(field(node.parent, "attribute") or node) == "cpu"
    )


def _moves(context: Context, node: Node, depth: int = 0) -> Iterator[Call]:
    """The `.to(device)` calls that a value of unchanged dtype meets."""
    if depth > 3:
        return
    current, parent = node, node.parent
    while parent is not None:
        if parent.type in ("subscript", "parenthesized_expression"):
            current, parent = parent, parent.parent
            continue
        if parent.type == "attribute" and parent.parent is not None and parent.parent.type == "call":
            call = Call(parent.parent)
            if call.method == "to" and call.arguments:
                if residence(context).move_target(call) is not None:
                    yield call
                return
            if call.method in _CASTS or call.method in (
                "type",
                "type_as",
                "cuda",
                "cpu",
                "double",
                "numpy",
                "item",
                "tolist",
            ):
                return
            current, parent = parent.parent, parent.parent.parent
            continue
        break
    if parent is not None and parent.type == "assignment" and same(field(parent, "right"), current):
        left = field(parent, "left")
        if left is not None and left.type == "identifier":
            where = residence(context)
            for use in where.uses(text(left)):
                if use.start_byte > left.end_byte and [b.node.id for b in where.reaching(use)] == [left.id]:
                    yield from _moves(context, use, depth + 1)


def _cast_after(context: Context, move: Node) -> tuple[Edit, str] | None:
    """(the edit that removes the cast, its dtype) when the moved tensor is cast at once."""
    module = context.module
    attribute = move.parent
    if (
        attribute is not None
        and attribute.type == "attribute"
        and attribute.parent is not None
        and attribute.parent.type == "call"
    ):
        dtype = _cast_of(Call(attribute.parent))
        return (module.edit(move.end_byte, attribute.parent.end_byte, ""), dtype) if dtype is not None else None
    owner = statement(move)
    following = owner.next_named_sibling
    first, second = first_named(owner), first_named(following)
    if (
        first is None
        or second is None
        or first.type != "assignment"
        or second.type != "assignment"
        or not module.starts_line(owner)
    ):
        return None
    name, again, value = field(first, "left"), field(second, "left"), field(second, "right")
    if name is None or again is None or value is None or text(name) != text(again) or value.type != "call":
        return None
    call = Call(value)
    if not same(field(first, "right"), move) or call.receiver is None or text(call.receiver) != text(name):
        return None
    dtype = _cast_of(call)
    if dtype is None or following is None:
        return None
    return module.edit(module.line_start(following.start_byte), module.line_end(following.end_byte - 1), ""), dtype


def _cast_of(call: Call) -> str | None:
    if call.method in _CASTS and not call.arguments:
        return _CASTS[call.method]
    if call.method in ("to", "type") and len(call.arguments) == 1:
        match = re.fullmatch(
            r"torch\.(float32|float16|bfloat16|float|half|long|int64|int32|int)", text(call.arguments[0].value)
        )
        if match is not None and call.arguments[0].name in (None, "dtype"):
            return _CASTS.get(match.group(1), match.group(1))
    return None


def _is_array(where: Residence, node: Node | None, depth: int = 0) -> bool:
    """Whether a value comes out of NumPy, rather than out of Python's own numbers and lists."""
    if node is None or depth > 6:
        return False
    node = strip_parens(node)
    if node.type == "identifier":
        return any(_is_array(where, b.value, depth + 1) for b in where.reaching(node))
    if node.type == "binary_operator":
        return any(_is_array(where, field(node, side), depth + 1) for side in ("left", "right"))
    if node.type == "subscript":
        return _is_array(where, field(node, "value"), depth + 1)
    if node.type == "call":
        call = Call(node)
        return (where.module.qualname(call.function) or "").startswith("numpy.") or _is_array(
            where, call.receiver, depth + 1
        )
    return node.type == "attribute" and (where.module.qualname(node) or "").startswith("numpy.")


def _is_double(where: Residence, node: Node | None, depth: int = 0) -> bool | None:
    """Whether a NumPy expression is float64: yes, no, or unknown."""
    if node is None or depth > 10:
        return None
    node = strip_parens(node)
    if node.type == "float":
        return True
    if node.type == "integer":
        return False
    if node.type in ("list", "tuple"):
        found = [_is_double(where, child, depth + 1) for child in node.named_children]
        return True if True in found else False if found and None not in found else None
    if node.type in ("subscript", "unary_operator"):
        return _is_double(where, field(node, "value") or field(node, "argument"), depth + 1)
    if node.type == "binary_operator":
        return _of_operator(where, node, depth)
    if node.type == "identifier":
        bindings = where.reaching(node)
        found = [_is_double(where, b.value, depth + 1) if b.value is not None else None for b in bindings]
        return found[0] if found and all(f is found[0] for f in found) else None
    return _of_call(where, Call(node), depth) if node.type == "call" else None


def _of_operator(where: Residence, node: Node, depth: int) -> bool | None:
    left, right = _is_double(where, field(node, "left"), depth + 1), _is_double(where, field(node, "right"), depth + 1)
    literal = [
        side
        for side in (field(node, "left"), field(node, "right"))
        if side is not None and side.type in ("float", "integer")
    ]
    if literal:  # a Python number does not widen an array of floats
        other = right if field(node, "left") in literal else left
        operator = field(node, "operator")
        divided = operator is not None and text(operator) == "/"
        return True if other is True or (other is False and (divided or literal[0].type == "float")) else None
    return True if True in (left, right) else None


def _of_call(where: Residence, call: Call, depth: int) -> bool | None:
    dtype = call.keyword("dtype")
    if call.method == "astype" and call.positional:
        return bool(_DOUBLE.match(text(call.positional[0].value)))
    name = where.module.qualname(call.function) or ""
    if dtype is not None and name.startswith(("numpy.", "np.")):
        return bool(_DOUBLE.match(text(dtype.value)))
    if name.startswith("numpy."):
        last = name.removeprefix("numpy.")
        if last in _ALWAYS:
            return True
        if last in _BY_SHAPE:
            return len(call.positional) < 2
        if last == "arange":
            return any(_is_double(where, a.value, depth + 1) for a in call.positional)
        if last in _AS_ARGUMENT and call.positional:
            inner = _is_double(where, call.positional[0].value, depth + 1)
            return True if inner is True or (inner is False and last in _ALWAYS_REAL) else inner
        return None
    if call.method in _GENERATOR and call.receiver is not None and "default_rng" in _source_of(where, call.receiver):
        return True
    if (
        call.method in ("reshape", "copy", "transpose", "squeeze", "ravel", "flatten", "mean", "sum", "clip")
        and call.receiver is not None
    ):
        return _is_double(where, call.receiver, depth + 1)
    return None


def _source_of(where: Residence, node: Node) -> str:
    if node.type == "identifier":
        return " ".join(text(b.value) for b in where.reaching(node) if b.value is not None)
    return text(node)
