"""What is done to a tensor in one expression: attributes, subscripts, operators, calls; each either is the meeting, or
gives a tensor that is followed on."""

from __future__ import annotations

from tree_sitter import Node

from anydevice.rules.home import Home
from anydevice.rules.moves import move_target
from anydevice.rules.passing import by_argument, by_loop
from anydevice.rules.tensor_words import CONTAINER_NODES, FACTORIES, LEGACY, listed
from anydevice.rules.trail import Meeting, Trail, Way
from anydevice.source.calls import Call
from anydevice.source.syntax import contains, field, same, text

# Tensor methods that want their tensor arguments beside the receiver. All others are not judged: copy_, expand_as,
# view_as, to and the like take a tensor from anywhere.
_STRICT = listed(
    "add add_ sub sub_ mul mul_ div div_ matmul mm bmm mv dot pow fmod remainder atan2 lerp lerp_ addmm"
    " addmm_ baddbmm masked_fill masked_fill_ masked_scatter masked_scatter_ masked_select where gather"
    " scatter scatter_ scatter_add scatter_add_ index_select index_add index_add_ index_copy index_copy_"
    " index_fill take take_along_dim eq ne lt le gt ge maximum minimum max min logical_and logical_or"
    " logical_xor bitwise_and bitwise_or cross equal allclose isclose addcmul addcmul_ addcdiv addcdiv_"
    " backward outer ger inner"
)
_LOOKUPS = frozenset({"gather", "index_select", "take", "take_along_dim", "embedding"})
_HOST = frozenset({"item", "tolist", "numpy", "size", "dim", "numel", "nelement", "get_device", "stride", "data_ptr"})
_KEPT_ATTRIBUTES = frozenset({"data", "T", "mT", "H", "real", "imag"})
# Operations that look at one tensor only, or take each as it comes.
_PASSED_THROUGH = listed(
    "broadcast_tensors meshgrid atleast_1d atleast_2d atleast_3d split chunk unbind split_with_sizes"
)
# ... and those that take sizes or lengths, or tensors from anywhere.
_NOT_FOLLOWED = listed("tensor_split save numel is_tensor interpolate upsample pad ctc_loss affine_grid")


def at_attribute(trail: Trail, node: Node, attribute: Node, way: Way) -> Meeting | None:
    """An attribute or a method of the tensor."""
    outer = attribute.parent
    name = text(field(attribute, "attribute") or attribute)
    if outer is None or outer.type != "call" or not same(field(outer, "function"), attribute):
        return trail.meeting(attribute, way) if name in _KEPT_ATTRIBUTES else None
    call = Call(outer)
    if move_target(trail.residence, call, trail.env) is not None or name in _HOST or name == "copy_":
        return None
    if name in _STRICT:
        for argument in call.arguments:
            if trail.moved(argument.value):
                return Meeting(outer, argument.value, "index" if name in _LOOKUPS else "operation", way.calls)
    return trail.meeting(outer, way)


def at_subscript(trail: Trail, node: Node, subscript: Node, way: Way) -> Meeting | None:
    """The tensor is indexed."""
    if not same(field(subscript, "value"), node):
        return None  # a CPU tensor may index a tensor of any device
    for index in subscript.children_by_field_name("subscript"):
        if trail.moved(index) and not _is_scalar_index(index):
            return Meeting(subscript, index, "index", way.calls)
    holder = subscript.parent
    if holder is not None and holder.type == "assignment" and same(field(holder, "left"), subscript):
        return None
    if trail.residence.takes_one(subscript) and not trail.residence.is_container(node):
        return None  # one of a vector is 0-dim
    return trail.meeting(subscript, way)


def at_operator(trail: Trail, node: Node, operator: Node, way: Way) -> Meeting | None:
    """The tensor is an operand."""
    if operator.type == "comparison_operator" and any(
        c.type in ("in", "is", "not in", "is not") for c in operator.children
    ):
        return None
    for other in operator.named_children:
        if other.type in CONTAINER_NODES or node.type in CONTAINER_NODES:
            break  # lists are joined or repeated
        if not same(other, node) and trail.moved(other):
            return Meeting(operator, other, "operation", way.calls)
        if not same(other, node) and trail.likely is None and trail.of(other) is None:
            trail.likely = Meeting(operator, other, "operation", way.calls)
    return trail.meeting(operator, way)


def at_argument(trail: Trail, node: Node, call: Call, way: Way) -> Meeting | None:
    """The tensor is an argument of a call."""
    name = trail.module.qualname(call.function) or ""
    if name.startswith(("torch", "einops.")):
        return _library_argument(trail, node, call, name, way)
    holder = call.node.parent
    if text(call.function) in ("enumerate", "zip", "tqdm") and holder is not None and holder.type == "for_statement":
        return by_loop(trail, holder, way)
    function = trail.residence.function_of(call)
    if function is not None:
        return by_argument(trail, node, call, function, way)
    callee = trail.of(call.function)
    others = [a.value for a in call.arguments if not contains(a.value, node)]
    if callee in (Home.MOVED_MODULE, Home.DEVICE):
        class_ = trail.residence.instance_of(call.function)
        forward = trail.residence.method_of(class_, "forward") if class_ is not None else None
        if forward is not None:
            return by_argument(trail, node, call, forward, way)
        return Meeting(call.node, call.function, "module", way.calls)
    if callee is Home.STATELESS and "ctc" not in text(call.function).lower():  # CTC takes targets from the CPU
        partner = next((other for other in others if trail.moved(other)), None)
        return (
            Meeting(call.node, partner, "operation", way.calls)
            if partner is not None
            else trail.meeting(call.node, way)
        )
    if call.receiver is None or call.method not in _STRICT:
        return None
    receiver = trail.of(call.receiver)
    if receiver is Home.DEVICE:
        return Meeting(call.node, call.receiver, "operation", way.calls)
    return trail.meeting(call.node, way) if receiver is Home.CPU else None


def _library_argument(trail: Trail, node: Node, call: Call, name: str, way: Way) -> Meeting | None:
    last = name.rsplit(".", 1)[-1]
    if name == "torch.autograd.Variable":
        return trail.meeting(call.node, way)
    if last in FACTORIES or last in LEGACY or last[:1].isupper() or last in _NOT_FOLLOWED:
        return None
    if last in _PASSED_THROUGH:
        return trail.meeting(call.node, way)
    if name.startswith(
        ("torch.nn.utils.", "torch.nn.init.", "torch.utils.", "torch.distributed.", "torch.cuda.", "torch.jit.")
    ):
        return None
    if trail.of(call.node) is None and not name.startswith("torch.autograd."):
        return None
    table = call.argument(1, "weight") if last == "embedding" else call.argument(0, "input")
    looked_up = last in _LOOKUPS and table is not None and contains(table.value, node)
    for argument in call.arguments:
        if not contains(argument.value, node) and trail.moved(argument.value):
            return Meeting(call.node, argument.value, "index" if looked_up else "operation", way.calls)
        if argument.value.type in ("list", "tuple"):
            for element in argument.value.named_children:
                if not contains(element, node) and trail.moved(element):
                    return Meeting(call.node, element, "operation", way.calls)
    return trail.meeting(call.node, way)


def at_update(trail: Trail, node: Node, assignment: Node, way: Way) -> Meeting | None:
    """`x += y`, where the tensor is one of the two."""
    left, right = field(assignment, "left"), field(assignment, "right")
    other = right if same(left, node) else left
    if other is not None and (
        other.type in CONTAINER_NODES or node.type in CONTAINER_NODES or trail.residence.is_container(left or node)
    ):
        return None
    if other is not None and trail.moved(other):
        return Meeting(assignment, other, "in-place", way.calls)
    return None


def _is_scalar_index(index: Node) -> bool:
    """A 0-dim tensor taken out of another by a number works as an integer."""
    return index.type == "subscript" and all(
        i.type in ("integer", "unary_operator", "identifier") for i in index.children_by_field_name("subscript")
    )
