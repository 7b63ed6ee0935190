"""Of which type NumPy makes its arrays: whether an expression is an array, and whether it is float64."""

from __future__ import annotations

import re

from tree_sitter import Node

from anydevice.rules.residence import Residence
from anydevice.rules.tensor_words import listed
from anydevice.source.calls import Call
from anydevice.source.syntax import field, strip_parens, text

_DOUBLE = re.compile(
    r"(?:(?:torch|np|numpy)\.)?(?:float64|double|float_)\Z|[\"'](?:float64|double|f8|d)[\"']\Z|float\Z"
)
# NumPy functions that give float64 whatever they are given (unless `dtype=` says otherwise).
_ALWAYS = listed(
    "linspace logspace geomspace random.rand random.randn random.random random.random_sample"
    " random.normal random.uniform random.standard_normal random.beta random.gamma random.exponential"
    " hanning hamming blackman kaiser fft.fftfreq"
)
_BY_SHAPE = listed("zeros ones empty eye identity")
# ... and those whose result is as their first argument, integers becoming float64.
_AS_ARGUMENT = listed(
    "sin cos tan exp log log2 sqrt tanh mean std cumsum cumprod concatenate stack vstack hstack array"
    " asarray ascontiguousarray copy clip abs transpose expand_dims squeeze repeat tile flip meshgrid"
    " outer dot matmul"
)
_ALWAYS_REAL = listed("sin cos tan exp log log2 sqrt tanh mean std")
_GENERATOR = listed("normal uniform random standard_normal beta gamma exponential")


def is_array(where: Residence, node: Node | None, depth: int = 0) -> bool:
    """Whether a value comes out of NumPy, rather than out of Python's own numbers and lists."""
    if node is None or depth > 6:
        return False
    node = strip_parens(node)
    if node.type == "identifier":
        return any(is_array(where, b.value, depth + 1) for b in where.reaching(node))
    if node.type == "binary_operator":
        return any(is_array(where, field(node, side), depth + 1) for side in ("left", "right"))
    if node.type == "subscript":
        return is_array(where, field(node, "value"), depth + 1)
    if node.type == "call":
        call = Call(node)
        return (where.module.qualname(call.function) or "").startswith("numpy.") or is_array(
            where, call.receiver, depth + 1
        )
    return node.type == "attribute" and (where.module.qualname(node) or "").startswith("numpy.")


def is_double(where: Residence, node: Node | None, depth: int = 0) -> bool | None:
    """Whether a NumPy expression is float64: yes, no, or unknown."""
    if node is None or depth > 10:
        return None
    node = strip_parens(node)
    if node.type == "float":
        return True
    if node.type == "integer":
        return False
    if node.type in ("list", "tuple"):
        found = [is_double(where, child, depth + 1) for child in node.named_children]
        return True if True in found else False if found and None not in found else None
    if node.type in ("subscript", "unary_operator"):
        return is_double(where, field(node, "value") or field(node, "argument"), depth + 1)
    if node.type == "binary_operator":
        return _of_operator(where, node, depth)
    if node.type == "identifier":
        bindings = where.reaching(node)
        found = [is_double(where, b.value, depth + 1) if b.value is not None else None for b in bindings]
        return found[0] if found and all(f is found[0] for f in found) else None
    return _of_call(where, Call(node), depth) if node.type == "call" else None


def _of_operator(where: Residence, node: Node, depth: int) -> bool | None:
    left, right = is_double(where, field(node, "left"), depth + 1), is_double(where, field(node, "right"), depth + 1)
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
            return any(is_double(where, a.value, depth + 1) for a in call.positional)
        if last in _AS_ARGUMENT and call.positional:
            inner = is_double(where, call.positional[0].value, depth + 1)
            return True if inner is True or (inner is False and last in _ALWAYS_REAL) else inner
        return None
    if call.method in _GENERATOR and call.receiver is not None and "default_rng" in _source_of(where, call.receiver):
        return True
    if (
        call.method in ("reshape", "copy", "transpose", "squeeze", "ravel", "flatten", "mean", "sum", "clip")
        and call.receiver is not None
    ):
        return is_double(where, call.receiver, depth + 1)
    return None


def _source_of(where: Residence, node: Node) -> str:
    if node.type == "identifier":
        return " ".join(text(b.value) for b in where.reaching(node) if b.value is not None)
    return text(node)
