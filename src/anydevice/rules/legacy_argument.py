"""What the single argument of a legacy constructor is: `torch.FloatTensor(x)` means a size, data, or a tensor.

A claim is made only on evidence in the file: the way an expression is built, or the one way a name is bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from tree_sitter import Node

from anydevice.source.calls import Call
from anydevice.source.module import Module
from anydevice.source.names import Binding
from anydevice.source.syntax import field, first_named, same, text


class Kind(Enum):
    """What an expression evaluates to."""

    NUMBER = "an integer"
    SIZE = "a torch.Size"
    DATA = "a list, a tuple or an array"
    TENSOR = "a tensor"
    UNKNOWN = "not known"


_NUMBERS = frozenset({"len", "int", "ord"})
_LISTS = frozenset({"list", "tuple", "range", "sorted"})
_NUMBER_METHODS = frozenset({"dim", "ndimension", "numel", "nelement", "item", "index", "count"})
_ARRAYS = frozenset(
    [
        "array",
        "asarray",
        "ascontiguousarray",
        "zeros",
        "ones",
        "empty",
        "full",
        "arange",
        "linspace",
        "eye",
        "identity",
        "stack",
        "vstack",
        "hstack",
        "concatenate",
        "column_stack",
        "zeros_like",
        "ones_like",
        "tile",
        "float32",
        "float64",
        "float16",
        "transpose",
        "expand_dims",
    ]
)
_RANDOM_ARRAYS = {"randn": 1, "rand": 1, "random": 1, "random_sample": 1, "normal": 3, "uniform": 3, "randint": 3}
_FACTORIES = frozenset(
    [
        "from_numpy",
        "tensor",
        "as_tensor",
        "zeros",
        "ones",
        "empty",
        "full",
        "rand",
        "randn",
        "randint",
        "randperm",
        "arange",
        "linspace",
        "eye",
        "cat",
        "stack",
        "zeros_like",
        "ones_like",
        "rand_like",
        "randn_like",
    ]
)
_TENSOR_METHODS = frozenset(
    [
        "cuda",
        "cpu",
        "detach",
        "clone",
        "contiguous",
        "unsqueeze",
        "float",
        "long",
        "half",
        "double",
        "byte",
        "int",
        "expand",
        "expand_as",
        "type_as",
        "requires_grad_",
        "new_zeros",
        "new_ones",
        "new_tensor",
    ]
)
_ANNOTATIONS = {
    "int": Kind.NUMBER,
    "torch.Size": Kind.SIZE,
    "Size": Kind.SIZE,
    "list": Kind.DATA,
    "np.ndarray": Kind.DATA,
    "numpy.ndarray": Kind.DATA,
    "torch.Tensor": Kind.TENSOR,
    "Tensor": Kind.TENSOR,
}
_DEPTH = 8


def kind(module: Module, node: Node, depth: int = 0) -> Kind:
    """What `node` evaluates to, as far as the file says."""
    if depth > _DEPTH:
        return Kind.UNKNOWN
    if node.type == "integer":
        return Kind.NUMBER
    if node.type in ("list", "list_comprehension", "tuple"):
        return Kind.DATA
    if node.type in ("parenthesized_expression", "unary_operator"):
        inner = first_named(node)
        return kind(module, inner, depth + 1) if inner is not None else Kind.UNKNOWN
    if node.type == "conditional_expression":
        parts = [c for c in node.named_children if c.type != "comment"]
        return _common(kind(module, part, depth + 1) for part in (parts[0], parts[-1]))
    finder = _FINDERS.get(node.type)
    return finder(module, node, depth) if finder is not None else Kind.UNKNOWN


def _operator(module: Module, node: Node, depth: int) -> Kind:
    left, right, operator = field(node, "left"), field(node, "right"), field(node, "operator")
    if left is None or right is None or operator is None:
        return Kind.UNKNOWN
    kinds = (kind(module, left, depth + 1), kind(module, right, depth + 1))
    if kinds == (Kind.NUMBER, Kind.NUMBER):
        return Kind.UNKNOWN if operator.type == "/" else Kind.NUMBER
    if kinds == (Kind.SIZE, Kind.SIZE) and operator.type == "+":
        return Kind.SIZE
    if Kind.DATA in kinds and (operator.type == "*" or kinds[0] is kinds[1]):
        # a list repeated or joined, an array scaled; a size among them would make a torch.Size
        return Kind.DATA if Kind.SIZE not in kinds and Kind.TENSOR not in kinds else Kind.UNKNOWN
    return Kind.TENSOR if kinds == (Kind.TENSOR, Kind.TENSOR) else Kind.UNKNOWN


def _called(module: Module, node: Node, depth: int) -> Kind:
    call = Call(node)
    name = module.qualname(call.function) or text(call.function)
    if name in _NUMBERS:
        return Kind.NUMBER
    if name in _LISTS:
        return Kind.DATA
    if name == "torch.Size":
        return Kind.SIZE
    owner, _, last = name.rpartition(".")
    if owner in ("numpy", "np"):
        return Kind.DATA if last in _ARRAYS else Kind.UNKNOWN
    if owner in ("numpy.random", "np.random"):
        sized = len(call.positional) >= _RANDOM_ARRAYS.get(last, 99) or (
            last in _RANDOM_ARRAYS and call.keyword("size")
        )
        return Kind.DATA if sized else Kind.UNKNOWN
    if owner == "torch":
        return Kind.TENSOR if last in _FACTORIES else Kind.UNKNOWN
    return _method(module, call, depth)


def _method(module: Module, call: Call, depth: int) -> Kind:
    receiver = call.receiver
    if receiver is None or call.method is None:
        return Kind.UNKNOWN
    if call.method == "size":
        return Kind.NUMBER if call.arguments else Kind.SIZE
    if call.method in _NUMBER_METHODS:
        return Kind.NUMBER
    if call.method in ("tolist", "numpy"):
        return Kind.DATA
    if call.method in ("astype", "reshape", "copy", "transpose", "flatten", "ravel"):
        return Kind.DATA if kind(module, receiver, depth + 1) is Kind.DATA else Kind.UNKNOWN
    return Kind.TENSOR if call.method in _TENSOR_METHODS else Kind.UNKNOWN


def _attribute(module: Module, node: Node, depth: int) -> Kind:
    owner, name = field(node, "object"), text(field(node, "attribute") or node)
    if owner is None:
        return Kind.UNKNOWN
    if name == "shape":  # that of an array is a plain tuple
        return Kind.DATA if kind(module, owner, depth + 1) is Kind.DATA else Kind.SIZE
    if name == "ndim":
        return Kind.NUMBER
    return Kind.TENSOR if name == "data" else Kind.UNKNOWN


def _subscript(module: Module, node: Node, depth: int) -> Kind:
    value, index = field(node, "value"), field(node, "subscript")
    if value is None or index is None:
        return Kind.UNKNOWN
    owner = kind(module, value, depth + 1)
    if owner is Kind.SIZE or (owner is Kind.DATA and text(value).endswith(".shape")):
        return owner if index.type == "slice" else Kind.NUMBER
    return Kind.UNKNOWN


def _name(module: Module, node: Node, depth: int) -> Kind:
    bindings = module.names.lookup(node)
    return _common(_bound(module, binding, depth + 1) for binding in bindings) if bindings else Kind.UNKNOWN


def _bound(module: Module, binding: Binding, depth: int) -> Kind:
    node, parent = binding.node, binding.node.parent
    if binding.kind == "parameter":
        annotated = next((c for a in [parent] if a is not None for c in a.children if c.type == "type"), None)
        if annotated is not None and text(annotated) in _ANNOTATIONS:
            return _ANNOTATIONS[text(annotated)]
        number = binding.value is not None and binding.value.type == "integer"
        return Kind.NUMBER if number else Kind.UNKNOWN
    if binding.value is not None:
        return kind(module, binding.value, depth)
    if parent is not None and parent.type == "for_statement":
        over = field(parent, "right")
        is_range = over is not None and over.type == "call" and text(Call(over).function) in ("range", "xrange")
        return Kind.NUMBER if is_range else Kind.UNKNOWN
    return _unpacked(module, node, depth)


def _unpacked(module: Module, node: Node, depth: int) -> Kind:
    """A name in `a, b = ...`."""
    pattern = node.parent
    holder = pattern.parent if pattern is not None else None
    if pattern is None or holder is None or holder.type != "assignment" or not same(field(holder, "left"), pattern):
        return Kind.UNKNOWN
    right = field(holder, "right")
    if right is None or any(child.type == "list_splat_pattern" for child in pattern.named_children):
        return Kind.UNKNOWN
    if right.type in ("expression_list", "tuple") and right.named_child_count == pattern.named_child_count:
        index = next(i for i, child in enumerate(pattern.named_children) if same(child, node))
        return kind(module, right.named_children[index], depth)
    whole = kind(module, right, depth)
    is_shape = right.type in ("attribute", "subscript") and ".shape" in text(right)
    return Kind.NUMBER if whole is Kind.SIZE or (whole is Kind.DATA and is_shape) else Kind.UNKNOWN


def _common(kinds: Iterable[Kind]) -> Kind:
    found = set(kinds)
    return found.pop() if len(found) == 1 else Kind.UNKNOWN


_FINDERS = {
    "binary_operator": _operator,
    "call": _called,
    "attribute": _attribute,
    "subscript": _subscript,
    "identifier": _name,
}
