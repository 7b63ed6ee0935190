"""What becomes of a loaded object: copied into parameters, moved, used as a module, or anything else.

Only what the file itself shows is judged. It decides which `map_location` leaves a CUDA machine as it was: whatever is
copied into parameters or moved at once may come from any device, the rest may not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field as attribute_of
from enum import Enum

from tree_sitter import Node

from anydevice.rules.at_hand import device_at
from anydevice.rules.site import Context
from anydevice.source.calls import Call
from anydevice.source.syntax import FUNCTIONS, ancestors, field, same, string_value, text, walk


class Use(Enum):
    """One thing that is done with a loaded object."""

    COPIED = "its values are copied into parameters"
    MOVED = "it is moved to a device"
    MODULE = "it is used as a module"
    CALLED = "it is called"
    NOTHING = "only numbers, names and options are read from it"
    OTHER = "something else"


@dataclass
class Uses:
    """All that is seen to be done with a loaded object.

    `host`: some of it has to be on the CPU (random states, counters of optimizers). `seen`: the nodes looked at.
    """

    kinds: set[Use] = attribute_of(default_factory=set)
    host: bool = False
    seen: set[int] = attribute_of(default_factory=set)

    @property
    def placed(self) -> bool:
        """Whether its devices do not matter: all of it is copied or moved."""
        return bool(self.kinds) and (
            self.kinds <= {Use.COPIED, Use.MOVED, Use.NOTHING}
            or (Use.MOVED in self.kinds and Use.OTHER not in self.kinds)
        )

    @property
    def is_module(self) -> bool:
        """Whether the object itself is a module, rather than the state of one."""
        return Use.MODULE in self.kinds


_DEPTH = 6
_LOADS = re.compile(
    r"load_(?:\w*state|weights?|pretrained|params?|parameters?|checkpoint|dict)\w*\Z|copy_\Z|restore\w*\Z"
)
_PASSES = re.compile(
    r"state_dict|weights|rename|strip|clean|convert|OrderedDict|remap|filter|\bdict\Z|remove_prefix", re.I
)
_SCALAR = re.compile(
    r"epoch|iter|step|best|acc|loss|arg|opt(?:ion)?s?\Z|conf|cfg|arch|hparam|name|version|score|metric|seed|lr|class|vocab|dim|size"
    r"|meta|hyper|time|git|commit|logs?\Z|hist",
    re.I,
)
_STATE = re.compile(
    r"state|model|net|weight|ema|(?<!h)(?<!hyper)(?<!hyper_)param|encoder|decoder|generator|discriminator", re.I
)
_HOST = re.compile(r"rng|random|optim|opt\w*\Z|scaler", re.I)
_MODULE_METHODS = frozenset(
    {"eval", "train", "half", "float", "double", "bfloat16", "requires_grad_", "to_empty", "apply"}
)
_MODULE_READS = frozenset(
    ("parameters", "named_parameters", "modules", "named_modules", "children", "named_children", "zero_grad", "buffers",
     "register_forward_hook", "add_module", "named_buffers", "module")
)  # fmt: skip
_MAPPING = frozenset({"items", "values", "keys", "copy", "update", "pop", "get", "setdefault"})
_HARMLESS = frozenset(
    {"print", "len", "isinstance", "type", "sorted", "hasattr", "str", "repr", "set", "bool", "id", "get"}
)
_IGNORED = frozenset(
    ("comparison_operator", "expression_statement", "if_statement", "elif_clause", "not_operator", "delete_statement",
     "assert_statement", "interpolation", "while_statement")
)  # fmt: skip


def uses_of(context: Context, node: Node) -> Uses:
    """What is done with the value of the expression `node`."""
    uses = Uses()
    _follow(context, node, uses, 0)
    return uses


def _follow(context: Context, node: Node, uses: Uses, depth: int) -> None:
    """Add to `uses` what the expression around `node` does with it."""
    parent = node.parent
    if node.id in uses.seen:
        return
    uses.seen.add(node.id)
    if parent is None or depth > _DEPTH:
        uses.kinds.add(Use.OTHER)
        return
    kind = parent.type
    if kind == "subscript" and same(field(parent, "value"), node):
        _entry(context, parent, field(parent, "subscript"), uses, depth)
    elif kind == "attribute":
        _attribute(context, parent, uses, depth)
    elif kind == "call" and same(field(parent, "function"), node):
        uses.kinds.add(Use.CALLED)
    elif kind in ("argument_list", "keyword_argument", "list_splat", "dictionary_splat"):
        _argument(context, parent, uses, depth)
    elif kind in ("parenthesized_expression", "conditional_expression", "boolean_operator", "await"):
        _follow(context, parent, uses, depth + 1)
    elif kind in ("assignment", "named_expression"):
        _assigned(context, parent, node, uses, depth)
    elif kind in ("for_statement", "for_in_clause"):
        uses.kinds |= _iterated(context, node)
    elif kind in _IGNORED:
        return
    elif kind in ("pattern_list", "tuple_pattern"):
        return  # assigned anew
    else:
        uses.kinds.add(Use.OTHER)


def _entry(context: Context, whole: Node, key: Node | None, uses: Uses, depth: int) -> None:
    """`checkpoint["key"]`: counters and options have no device."""
    name = string_value(key) if key is not None else None
    if name is not None and _HOST.search(name):
        uses.host = True
    parent = whole.parent
    if parent is not None and parent.type == "assignment" and same(field(parent, "left"), whole):
        return
    if name is not None and _SCALAR.search(name) and not _HOST.search(name) and not _STATE.search(name):
        uses.kinds.add(Use.NOTHING)
        return
    before = set(uses.kinds)
    _follow(context, whole, uses, depth + 1)
    if name is not None and "rng" in name:
        uses.kinds = before | {Use.COPIED}


def _attribute(context: Context, whole: Node, uses: Uses, depth: int) -> None:
    name = text(field(whole, "attribute") or whole)
    call = whole.parent if whole.parent is not None and whole.parent.type == "call" else None
    if call is None or not same(field(call, "function"), whole):
        if name in _MODULE_READS:
            uses.kinds.add(Use.MODULE)
        elif name in ("shape", "dtype", "device"):
            return
        else:
            uses.kinds.add(Use.OTHER)
        return
    if name in ("to", "cuda", "cpu"):
        uses.kinds.add(Use.MOVED)
    elif name in _MODULE_METHODS:
        if name not in ("half", "float", "double", "bfloat16"):
            uses.kinds.add(Use.MODULE)
        _follow(context, call, uses, depth + 1)
    elif name in _MODULE_READS or name == "load_state_dict":
        uses.kinds.add(Use.MODULE)
    elif name == "state_dict":
        uses.kinds.add(Use.MODULE)
        _follow(context, call, uses, depth + 1)
    elif name in ("get", "pop"):
        arguments = Call(call).positional
        _entry(context, call, arguments[0].value if arguments else None, uses, depth)
    elif name in ("items", "values", "copy"):
        if name == "copy":
            _follow(context, call, uses, depth + 1)
        else:
            uses.kinds |= _iterated(context, call)
    elif name in _MAPPING or name in ("size", "dim", "numel", "item"):
        return
    else:
        uses.kinds.add(Use.OTHER)


def _argument(context: Context, holder: Node, uses: Uses, depth: int) -> None:
    arguments = holder if holder.type == "argument_list" else holder.parent
    node = arguments.parent if arguments is not None else None
    if node is None or node.type != "call":
        uses.kinds.add(Use.OTHER)
        return
    call = Call(node)
    name = text(call.function).rsplit(".", 1)[-1]
    if _LOADS.match(name):
        assign = call.keyword("assign")
        uses.kinds.add(Use.OTHER if assign is not None and text(assign.value) != "False" else Use.COPIED)
        if call.receiver is not None and _HOST.search(text(call.receiver)):
            uses.host = True
    elif name == "update":
        uses.kinds |= _iterated(context, node)
    elif name in ("set_rng_state", "set_rng_state_all", "manual_seed"):
        uses.kinds.add(Use.COPIED)
        uses.host = True
    elif name in _HARMLESS:
        return
    elif name in ("DataParallel", "DistributedDataParallel", "DDP"):
        uses.kinds.add(Use.MODULE)
    elif _PASSES.search(name):
        _follow(context, node, uses, depth + 1)
    else:
        uses.kinds.add(Use.OTHER)


def _iterated(context: Context, node: Node) -> set[Use]:
    """`for k, v in state.items()`: copied when the function loads a state."""
    function = next((a for a in ancestors(node) if a.type in FUNCTIONS), None) or context.module.root
    source = text(function)
    return {Use.COPIED} if re.search(r"load_state_dict\(|\.copy_\(|\.load_\w*state\w*\(", source) else {Use.OTHER}


def _assigned(context: Context, assignment: Node, value: Node, uses: Uses, depth: int) -> None:
    left = field(assignment, "left") or field(assignment, "name")
    if left is None or same(left, value):
        return
    targets = [left] if left.type in ("identifier", "attribute") else list(left.named_children)
    if left.type not in ("identifier", "attribute", "pattern_list", "tuple_pattern"):
        uses.kinds |= _iterated(context, assignment) if left.type == "subscript" else {Use.OTHER}
        return
    for target in targets:
        if target.type == "identifier":
            found = [n for n in context.module.names.references(text(target)) if _same_scope(context, n, target)]
            if not found:
                uses.kinds.add(Use.OTHER)
        elif target.type == "attribute":
            found = list(_same_attribute(context, target))
        else:
            uses.kinds.add(Use.OTHER)
            continue
        for use in found:
            _follow(context, use, uses, depth + 1)
    if assignment.parent is not None and assignment.type == "named_expression":
        _follow(context, assignment, uses, depth + 1)


def _same_scope(context: Context, use: Node, target: Node) -> bool:
    return any(same(b.node, target) for b in context.module.names.lookup(use))


def _same_attribute(context: Context, target: Node) -> Iterator[Node]:
    """All reads of `self.name`, or of another attribute spelled the same."""
    source, owner = text(target), context.module.class_(target) or context.module.root
    for node in walk(owner):
        if node.type == "attribute" and not same(node, target) and text(node) == source:
            parent = node.parent
            if not (parent is not None and parent.type == "assignment" and same(field(parent, "left"), node)):
                yield node


_NO_DEVICE = re.compile(r"(?:ids?|idx|index|num|count|type|map|list|names?|s)\Z", re.I)
_NUMBER = re.compile(r"get_device\(|rank|gpu\b|gpu_id|\A-?\d+\Z|device_count|current_device\(")


def bound_device(context: Context, node: Node) -> str | None:
    """An expression for a device that is at hand at `node`, and that torch.load takes (no number)."""
    name = device_at(context, node)
    if name is None or _NO_DEVICE.search(name.rsplit(".", 1)[-1].removesuffix("()")):
        return None
    root = name.partition(".")[0]
    if root == name:
        for binding in context.module.names.bindings(root):
            if binding.value is not None and binding.kind != "function" and _NUMBER.search(text(binding.value)):
                return None
    return name


def is_map_location(node: Node) -> bool:
    """Whether `node` is (in) a table or a function given as `map_location`, which this family rewrites as a whole."""
    inside = False
    for parent in ancestors(node):
        if parent.type in ("lambda", "dictionary"):
            inside = True
            owner = parent.parent
            while owner is not None and owner.type == "parenthesized_expression":
                owner = owner.parent
            if owner is None:
                return False
            if owner.type == "keyword_argument":
                return text(field(owner, "name") or owner) == "map_location"
            if owner.type == "argument_list" and owner.parent is not None:
                return text(field(owner.parent, "function") or owner).endswith(("torch.load", "jit.load"))
            if owner.type == "assignment":
                return _assigned_location(owner)
            return False
        if parent.type in ("block", "module") or (inside and parent.type == "call"):
            return False
    return False


def _assigned_location(assignment: Node) -> bool:
    left = field(assignment, "left")
    if left is None or left.type != "identifier":
        return False
    root = assignment
    while root.parent is not None:
        root = root.parent
    name = text(left)
    return f"map_location={name}" in text(root).replace(" ", "")
