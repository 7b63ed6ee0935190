"""The tensor types of PyTorch before 0.4 (`torch.cuda.FloatTensor`): their names today, and how code uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from tree_sitter import Node

from anydevice.finding import Edit
from anydevice.rules.placement import Expression
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Call
from anydevice.source.module import Module
from anydevice.source.syntax import ancestors, field, first_named, same, string_value, strip_parens, text

# Kind of legacy type -> dtype (https://docs.pytorch.org/docs/stable/tensors.html, "Data types").
DTYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}
_TYPE = re.compile(rf"torch\.(cuda\.)?(sparse\.)?({'|'.join(DTYPES)})(Tensor|Storage)\Z")
_GENERICS = re.compile(
    r"(?:\w+\.)*(?:Optional|Union|List|Tuple|Dict|Sequence|Iterable|Iterator|Callable|Set|list|tuple|dict)\Z"
)


@dataclass(frozen=True)
class LegacyType:
    """`torch.cuda.FloatTensor`: `kind` Float, on CUDA. `torch.Tensor` is the kind "", the default type."""

    kind: str
    on_cuda: bool = False
    sparse: bool = False
    storage: bool = False

    @property
    def dtype(self) -> str:
        """`float32`; empty for `torch.Tensor`, whose dtype is the default one."""
        return DTYPES.get(self.kind, "")

    @property
    def dense(self) -> bool:
        """Whether this is the type of ordinary tensors."""
        return not self.sparse and not self.storage

    @property
    def spelling(self) -> str:
        """The name below torch on the CPU: `FloatTensor`."""
        return f"{'sparse.' if self.sparse else ''}{self.kind}{'Storage' if self.storage else 'Tensor'}"


def parse(name: str | None) -> LegacyType | None:
    """The legacy type of a dotted name."""
    if name == "torch.Tensor":
        return LegacyType("")
    match = _TYPE.match(name) if name else None
    if match is None:
        return None
    return LegacyType(match[3], bool(match[1]), bool(match[2]), match[4] == "Storage")


def legacy_type(module: Module, node: Node) -> LegacyType | None:
    """The legacy type that an expression names, as an object or as a string."""
    if node.type == "string":
        return parse(string_value(node))
    return parse(module.qualname(node)) if node.type in ("attribute", "identifier") else None


def reference(site: Site) -> tuple[Node, LegacyType] | None:
    """The mention of a CUDA type at an anchor."""
    node = site.leaf if site.in_string else site.reference
    found = parse(string_value(node) if site.in_string else site.qualname)
    return (node, found) if found is not None and found.on_cuda and not site.is_import else None


class Role(Enum):
    """What a mention of a type is there for."""

    CALLED = "makes a tensor"
    CHOSEN = "makes a tensor, through a choice between types"
    CONVERTS = "the argument of .type()"
    TESTS = "is compared with"
    DEFAULT = "becomes the default type"
    ANNOTATES = "an annotation"
    NAMED = "gets a name of one's own"
    PARAMETER = "the default of a parameter"
    MAPPED = "is handed to map() to make tensors"
    OTHER = "anything else"


@dataclass(frozen=True)
class Use:
    """`role`, the whole expression that plays it (a choice between types, say), and the node that gives the role: the
    call of the constructor or of `.type`, the assignment, the parameter."""

    role: Role
    value: Node
    holder: Node


def use(module: Module, mention: Node) -> Use:
    """How the mention of a type is used."""
    value = _choice(mention)
    parent = value.parent
    if parent is None:
        return Use(Role.OTHER, value, value)
    if parent.type == "call" and same(field(parent, "function"), value):
        return Use(Role.CALLED if same(value, mention) else Role.CHOSEN, value, parent)
    if any(a.type == "type" for a in ancestors(mention)) or _is_generic(parent):
        return Use(Role.ANNOTATES, value, parent)
    if parent.type == "assignment" and same(field(parent, "right"), value):
        return Use(Role.NAMED, value, parent)
    if (
        parent.type in ("expression_list", "tuple")
        and (holder := parent.parent) is not None
        and holder.type == "assignment"
    ):
        return Use(Role.NAMED, value, holder)
    if parent.type in ("default_parameter", "typed_default_parameter"):
        return Use(Role.PARAMETER, value, parent)
    if parent.type == "comparison_operator":
        return Use(Role.TESTS, value, parent)
    return _passed(module, value)


def _choice(mention: Node) -> Node:
    """The choice between types of which `mention` is one branch, or `mention`."""
    value = mention
    while (parent := value.parent) is not None:
        chosen = parent.type == "conditional_expression" and not same(_condition(parent), value)
        if not (chosen or parent.type in ("parenthesized_expression", "boolean_operator")):
            break
        value = parent
    return value


def _condition(conditional: Node) -> Node | None:
    parts = [child for child in conditional.named_children if child.type != "comment"]
    return parts[1] if len(parts) == 3 else None


def choice(value: Node) -> tuple[list[Node], Node | None]:
    """(what is chosen from, the condition) of a conditional expression; other expressions are their only choice."""
    while value.type == "parenthesized_expression" and (inner := first_named(value)) is not None:
        value = inner
    condition = _condition(value) if value.type == "conditional_expression" else None
    if condition is None:
        return [value], None
    branches = [c for c in value.named_children if c.type != "comment" and not same(c, condition)]
    leaves = [leaf for branch in branches for leaf in choice(branch)[0]]
    nested = any(choice(branch)[1] is not None for branch in branches)
    return leaves, value if nested else condition


def _passed(module: Module, value: Node) -> Use:
    argument = value
    parent = argument.parent
    while parent is not None and parent.type in ("tuple", "list", "keyword_argument"):
        argument, parent = parent, parent.parent
    if parent is not None and parent.type == "comparison_operator":
        return Use(Role.TESTS, value, parent)
    node = parent.parent if parent is not None and parent.type == "argument_list" else None
    if node is None or node.type != "call":
        return Use(Role.OTHER, value, argument)
    call = Call(node)
    name = module.qualname(call.function) or text(call.function)
    first = call.argument(0, "dtype", "dst_type", "type", "t")
    is_first = first is not None and same(first.value, value)
    if call.method == "type" and is_first:
        return Use(Role.CONVERTS, value, node)
    if name.endswith("set_default_tensor_type"):
        return Use(Role.DEFAULT, value, node)
    if name in ("isinstance", "issubclass"):
        return Use(Role.TESTS, value, node)
    if name in ("map", "list.map") and is_first:
        return Use(Role.MAPPED, value, node)
    return Use(Role.OTHER, value, argument)


def _is_generic(parent: Node) -> bool:
    if parent.type == "tuple" and parent.parent is not None:
        parent = parent.parent
    value = field(parent, "value") if parent.type == "subscript" else None
    return value is not None and bool(_GENERICS.match(text(value)))


# -- what is written in their place --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """The names of torch, of the device, and of a dtype at one place, with the edits that they need."""

    torch: str
    device: str
    edits: tuple[Edit, ...]

    def options(self, kind: LegacyType) -> str:
        """The keyword arguments of a factory."""
        return f"dtype={self.torch}.{kind.dtype}, device={self.device}"

    def constructor(self, kind: LegacyType) -> str:
        """Exactly the legacy constructor, on the device: `Tensor.new` tells sizes, data, arrays and tensors apart."""
        return f"{self.torch}.empty(0, {self.options(kind)}).new"


def written(context: Context, node: Node) -> Written:
    """How torch and the device are spelled at `node`."""
    torch, device = context.placement.torch_name(node), context.device(node)
    # the definition of the device brings `import torch` where that is missing
    return Written(torch.text, device.expr, device.edits or torch.edits)


def maker(context: Context, node: Node, kind: LegacyType) -> Expression:
    """A function of the file that makes tensors as the legacy type did."""
    name = f"{kind.kind.lower()}_tensor"

    def definition(name: str, torch: str, device: str) -> str:
        body = Written(torch, device, ()).constructor(kind)
        return f"def {name}(*args):\n{context.module.indent_unit}return {body}(*args)\n"

    return context.placement.function(node, (name, f"device_{name}", f"_{name}"), definition)


def mentions(module: Module, name: str, binding: Node) -> Iterator[Node]:
    """The uses of a name that may mean what `binding` gave it."""
    for node in module.names.references(name):
        if any(same(found.node, binding) for found in module.names.lookup(node)):
            yield node


def attribute_mentions(module: Module, attribute: Node) -> Iterator[Node]:
    """The uses of an attribute (`self.Tensor`) in the file, its assignments left out."""
    name = field(attribute, "attribute")
    if name is None:
        return
    for leaf in module.names.occurrences(text(name)):
        node = leaf.parent
        if node is None or node.type != "attribute" or text(node) != text(attribute):
            continue
        parent = node.parent
        if parent is not None and parent.type == "assignment" and same(field(parent, "left"), node):
            continue
        yield node


def conversion(call: Call, arguments: str) -> str:
    """`to(...)` in place of the `type(...)` of `call`."""
    blocking = call.argument(1, "non_blocking", "async")
    return f"to({arguments}, non_blocking={text(blocking.value)})" if blocking is not None else f"to({arguments})"


def follows_machine(context: Context, condition: Node, depth: int = 0) -> bool:
    """Whether a condition is nothing but the question whether there is an accelerator."""
    condition = strip_parens(condition)
    if condition.type == "call":
        name = context.module.qualname(Call(condition).function)
        return name in ("torch.cuda.is_available", "torch.accelerator.is_available")
    if condition.type == "comparison_operator":  # what a fix writes for an old torch
        return text(condition) == f'{context.device(condition).type} != "cpu"'
    if condition.type == "conditional_expression":
        parts = [part for part in condition.named_children if part.type != "comment"]
        return [text(parts[0]), text(parts[-1])] == ["True", "False"] and follows_machine(context, parts[1], depth + 1)
    if condition.type == "identifier" and depth < 4:
        bindings = context.module.names.lookup(condition)
        return bool(bindings) and all(
            b.kind == "assignment" and b.value is not None and follows_machine(context, b.value, depth + 1)
            for b in bindings
        )
    return False
