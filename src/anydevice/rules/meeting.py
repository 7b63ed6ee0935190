"""Follows a tensor made on the CPU forward through the file, to the operation where it meets one that was moved."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tree_sitter import Node

from anydevice.rules.residence import Env, Home, Residence
from anydevice.rules.tensor_words import CONTAINER_NODES, FACTORIES, LEGACY, listed
from anydevice.source.calls import Call
from anydevice.source.names import Binding
from anydevice.source.syntax import FUNCTIONS, enclosing, field, same, statement, text

_DEPTH = 40
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
_PLACED = (Home.DEVICE, Home.PLACED, Home.MOVED_MODULE)
# Operations that look at one tensor only, or take each as it comes.
_PASSED_THROUGH = listed(
    "broadcast_tensors meshgrid atleast_1d atleast_2d atleast_3d split chunk unbind split_with_sizes"
)
# ... and those that take sizes or lengths, or tensors from anywhere.
_NOT_FOLLOWED = listed("tensor_split save numel is_tensor interpolate upsample pad ctc_loss affine_grid")


@dataclass(frozen=True)
class Meeting:
    """`where` is the operation, `partner` the operand on the other device; `calls` brought the tensor there.

    `kind` is operation, module (a moved module is called with it), index (the index was moved), or in-place.
    """

    where: Node
    partner: Node
    kind: str
    calls: tuple[Node, ...] = ()


def meeting_of(residence: Residence, call: Node) -> Meeting | None:
    """Where the tensor that `call` makes meets a moved one; looked up once, though several rules ask."""
    known: dict[int, Meeting | None] = residence.remembered
    if call.id not in known:
        known[call.id] = Trail(residence).meeting(call)
    return known[call.id]


class Trail:
    """One tensor on its way."""

    def __init__(self, residence: Residence) -> None:
        self.residence = residence
        self.likely: Meeting | None = None  # an operation with a value of which nothing is known
        self.module = residence.module
        self._seen: set[int] = set()
        self._env: Env = {}

    def meeting(self, node: Node, calls: tuple[Node, ...] = (), back: tuple[Node, ...] = ()) -> Meeting | None:
        """Where the value of `node` meets a moved tensor. `back` are the calls to return to, innermost last."""
        if node.id in self._seen or len(self._seen) > _DEPTH * 5 or node.parent is None:
            return None
        self._seen.add(node.id)
        parent = node.parent
        kind = parent.type
        if kind == "tuple" and parent.parent is not None and parent.parent.type == "return_statement":
            return self._listed(node, parent, calls, back)
        if kind in (
            "parenthesized_expression",
            "unary_operator",
            "list_splat",
            "list",
            "tuple",
            "set",
            "list_comprehension",
        ):
            return self.meeting(parent, calls, back)
        if kind == "attribute" and same(field(parent, "object"), node):
            return self._attribute(node, parent, calls, back)
        if kind == "subscript":
            return self._subscript(node, parent, calls, back)
        if kind in ("binary_operator", "comparison_operator"):
            return self._operator(node, parent, calls, back)
        if kind == "conditional_expression":
            parts = [child for child in parent.named_children if child.type != "comment"]
            if len(parts) != 3 or same(parts[1], node):
                return None
            other = parts[2] if same(parts[0], node) else parts[0]
            return None if self._of(other) in _PLACED else self.meeting(parent, calls, back)
        if kind == "dictionary_splat":
            return self.meeting(parent, calls, back)
        if kind == "for_statement" and same(field(parent, "right"), node):
            return self._looped(parent, calls, back)
        if kind == "keyword_argument" and parent.parent is not None and parent.parent.parent is not None:
            return self._argument(node, Call(parent.parent.parent), calls, back)
        if kind == "argument_list" and parent.parent is not None and parent.parent.type == "call":
            return self._argument(node, Call(parent.parent), calls, back)
        if (
            kind == "expression_list"
            and parent.parent is not None
            and parent.parent.type in ("return_statement", "assignment")
        ):
            return self._listed(node, parent, calls, back)
        if kind == "assignment" and same(field(parent, "right"), node):
            return self._assigned(field(parent, "left"), calls, back)
        if kind == "augmented_assignment":
            return self._augmented(node, parent, calls)
        if kind == "return_statement":
            return self._returned(parent, calls, back)
        return None

    # -- one step ----------------------------------------------------------------------------------------------

    def _attribute(
        self, node: Node, attribute: Node, calls: tuple[Node, ...], back: tuple[Node, ...]
    ) -> Meeting | None:
        outer = attribute.parent
        name = text(field(attribute, "attribute") or attribute)
        if outer is None or outer.type != "call" or not same(field(outer, "function"), attribute):
            return self.meeting(attribute, calls, back) if name in _KEPT_ATTRIBUTES else None
        call = Call(outer)
        if self.residence.move_target(call, self._env) is not None or name in _HOST or name == "copy_":
            return None
        if name in _STRICT:
            for argument in call.arguments:
                if self._moved(argument.value):
                    return Meeting(outer, argument.value, "index" if name in _LOOKUPS else "operation", calls)
        return self.meeting(outer, calls, back)

    def _subscript(
        self, node: Node, subscript: Node, calls: tuple[Node, ...], back: tuple[Node, ...]
    ) -> Meeting | None:
        if not same(field(subscript, "value"), node):
            return None  # a CPU tensor may index a tensor of any device
        for index in subscript.children_by_field_name("subscript"):
            if self._moved(index) and not self._is_scalar_index(index):
                return Meeting(subscript, index, "index", calls)
        holder = subscript.parent
        if holder is not None and holder.type == "assignment" and same(field(holder, "left"), subscript):
            return None
        if self.residence.takes_one(subscript) and not self.residence.is_container(node):
            return None  # one of a vector is 0-dim
        return self.meeting(subscript, calls, back)

    def _is_scalar_index(self, index: Node) -> bool:
        """A 0-dim tensor taken out of another by a number works as an integer."""
        return index.type == "subscript" and all(
            i.type in ("integer", "unary_operator", "identifier") for i in index.children_by_field_name("subscript")
        )

    def _operator(self, node: Node, operator: Node, calls: tuple[Node, ...], back: tuple[Node, ...]) -> Meeting | None:
        if operator.type == "comparison_operator" and any(
            c.type in ("in", "is", "not in", "is not") for c in operator.children
        ):
            return None
        for other in operator.named_children:
            if other.type in CONTAINER_NODES or node.type in CONTAINER_NODES:
                break  # lists are joined or repeated
            if not same(other, node) and self._moved(other):
                return Meeting(operator, other, "operation", calls)
            if not same(other, node) and self.likely is None and self._of(other) is None:
                self.likely = Meeting(operator, other, "operation", calls)
        return self.meeting(operator, calls, back)

    def _argument(self, node: Node, call: Call, calls: tuple[Node, ...], back: tuple[Node, ...]) -> Meeting | None:
        name = self.module.qualname(call.function) or ""
        if name.startswith(("torch", "einops.")):
            return self._library_argument(node, call, name, calls, back)
        holder = call.node.parent
        if (
            text(call.function) in ("enumerate", "zip", "tqdm")
            and holder is not None
            and holder.type == "for_statement"
        ):
            return self._looped(holder, calls, back)
        function = self.residence.function_of(call)
        if function is not None:
            return self._entered(node, call, function, calls, back)
        callee = self._of(call.function)
        others = [a.value for a in call.arguments if not _holds(a.value, node)]
        if callee in (Home.MOVED_MODULE, Home.DEVICE):
            class_ = self.residence.instance_of(call.function)
            forward = self.residence.method_of(class_, "forward") if class_ is not None else None
            if forward is not None:
                return self._entered(node, call, forward, calls, back)
            return Meeting(call.node, call.function, "module", calls)
        if callee is Home.STATELESS and "ctc" not in text(call.function).lower():  # CTC takes targets from the CPU
            partner = next((other for other in others if self._moved(other)), None)
            return (
                Meeting(call.node, partner, "operation", calls)
                if partner is not None
                else self.meeting(call.node, calls, back)
            )
        if call.receiver is None or call.method not in _STRICT:
            return None
        receiver = self._of(call.receiver)
        if receiver is Home.DEVICE:
            return Meeting(call.node, call.receiver, "operation", calls)
        return self.meeting(call.node, calls, back) if receiver is Home.CPU else None

    def _library_argument(
        self, node: Node, call: Call, name: str, calls: tuple[Node, ...], back: tuple[Node, ...]
    ) -> Meeting | None:
        last = name.rsplit(".", 1)[-1]
        if name == "torch.autograd.Variable":
            return self.meeting(call.node, calls, back)
        if last in FACTORIES or last in LEGACY or last[:1].isupper() or last in _NOT_FOLLOWED:
            return None
        if last in _PASSED_THROUGH:
            return self.meeting(call.node, calls, back)
        if name.startswith(
            ("torch.nn.utils.", "torch.nn.init.", "torch.utils.", "torch.distributed.", "torch.cuda.", "torch.jit.")
        ):
            return None
        if self._of(call.node) is None and not name.startswith("torch.autograd."):
            return None
        table = call.argument(1, "weight") if last == "embedding" else call.argument(0, "input")
        looked_up = last in _LOOKUPS and table is not None and _holds(table.value, node)
        for argument in call.arguments:
            if not _holds(argument.value, node) and self._moved(argument.value):
                return Meeting(call.node, argument.value, "index" if looked_up else "operation", calls)
            if argument.value.type in ("list", "tuple"):
                for element in argument.value.named_children:
                    if not _holds(element, node) and self._moved(element):
                        return Meeting(call.node, element, "operation", calls)
        return self.meeting(call.node, calls, back)

    def _listed(self, node: Node, listed: Node, calls: tuple[Node, ...], back: tuple[Node, ...]) -> Meeting | None:
        """One of `a, b` that is returned or assigned."""
        owner = listed.parent
        index = [child.id for child in listed.named_children].index(node.id)
        if owner is not None and owner.type == "return_statement":
            return self._returned(owner, calls, back, index)
        left = field(owner, "left") if owner is not None and owner.type == "assignment" else None
        if left is None:
            return self.meeting(listed, calls, back)
        if left.type != "pattern_list":
            return self._assigned(left, calls, back)
        return self._assigned(left.named_child(index), calls, back) if index < left.named_child_count else None

    def _looped(self, loop: Node, calls: tuple[Node, ...], back: tuple[Node, ...]) -> Meeting | None:
        """What a loop takes out of the value: each element lives where the whole does."""
        target = field(loop, "left")
        if target is None:
            return None
        for word in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", text(target))):
            for binding in self.module.names.bindings(word):
                inside = target.start_byte <= binding.node.start_byte < target.end_byte
                if inside and self.residence.of_binding(binding, self._env) is Home.CPU:
                    found = self.uses_of(binding, calls, back)
                    if found is not None:
                        return found
        return None

    def _assigned(self, target: Node | None, calls: tuple[Node, ...], back: tuple[Node, ...]) -> Meeting | None:
        if target is None:
            return None
        if target.type in ("pattern_list", "tuple_pattern"):
            for child in target.named_children:
                found = self._assigned(child, calls, back)
                if found is not None:
                    return found
            return None
        if target.type == "identifier":
            binding = next((b for b in self.module.names.bindings(text(target)) if b.node.id == target.id), None)
            return self.uses_of(binding, calls, back) if binding is not None else None
        if target.type == "attribute" and text(field(target, "object") or target) == "self":
            function, class_ = self.module.function(target), self.module.class_(target)
            if self.residence.runs_after_move(function) or not self.residence.is_module_class(class_):
                return self.attribute_meeting(target, calls)
        return None

    def uses_of(self, binding: Binding, calls: tuple[Node, ...] = (), back: tuple[Node, ...] = ()) -> Meeting | None:
        """Where the value that a name is bound to meets a moved tensor."""
        for leaf in self.residence.uses(text(binding.node)):
            if leaf.start_byte <= binding.node.start_byte or not _inside(leaf, binding.scope):
                continue
            reaching = self.residence.reaching(leaf)
            if not any(b.node.id == binding.node.id for b in reaching):
                continue
            if any(
                b.kind != "parameter"
                and b.node.id != binding.node.id
                and self.residence.of_binding(b, self._env) in _PLACED
                for b in reaching
            ):
                continue
            found = self.meeting(leaf, calls, back)
            if found is not None:
                return found
        return None

    def attribute_meeting(self, target: Node, calls: tuple[Node, ...] = ()) -> Meeting | None:
        """Where a CPU tensor that is kept as `self.name` (`target`) meets a moved one."""
        class_ = self.module.class_(target)
        name = text(field(target, "attribute") or target)
        if class_ is None or self.residence.of_attribute(target, name) is not Home.CPU:
            return None
        for use in self.residence.attribute_uses(class_, name):
            if use.start_byte == target.start_byte:
                continue
            found = self.meeting(use, calls)
            if found is not None:
                return found
        return None

    def _augmented(self, node: Node, assignment: Node, calls: tuple[Node, ...]) -> Meeting | None:
        left, right = field(assignment, "left"), field(assignment, "right")
        other = right if same(left, node) else left
        if other is not None and (
            other.type in CONTAINER_NODES or node.type in CONTAINER_NODES or self.residence.is_container(left or node)
        ):
            return None
        if other is not None and self._moved(other):
            return Meeting(assignment, other, "in-place", calls)
        return None

    def _returned(
        self, returned: Node, calls: tuple[Node, ...], back: tuple[Node, ...], index: int | None = None
    ) -> Meeting | None:
        """The value (number `index` of several) goes back to who called."""
        function = enclosing(returned, FUNCTIONS)
        if function is None or function.type != "function_definition":
            return None
        if any(self._of(value) in _PLACED for value in self.residence.returns(function)):
            return None
        if back:
            return self._arrived(back[-1], index, calls, back[:-1])
        for call in self.residence.callers(function):
            if self.module.function_name(function) in ("__init__", "__getitem__", "__call__", "__len__"):
                return None
            target = self.residence.function_of(call)
            if target is None or not same(target, function):
                continue
            found = self._arrived(call.node, index, (*calls, call.node), ())
            if found is not None:
                return found
        return None

    def _arrived(
        self, call: Node, index: int | None, calls: tuple[Node, ...], back: tuple[Node, ...]
    ) -> Meeting | None:
        """The value of a call; one of several values is only followed where they are unpacked."""
        if index is None:
            return self.meeting(call, calls, back)
        holder = call.parent
        left = field(holder, "left") if holder is not None and holder.type == "assignment" else None
        if left is None or left.type != "pattern_list" or index >= left.named_child_count:
            return None
        return self._assigned(left.named_child(index), calls, back)

    def _entered(
        self, node: Node, call: Call, function: Node, calls: tuple[Node, ...], back: tuple[Node, ...]
    ) -> Meeting | None:
        """The tensor becomes a parameter of a function of this file."""
        if len(back) > 3:
            return None
        for name, argument in self.residence.matched(function, call):
            if not _holds(argument.value, node):
                continue
            binding = next(
                (b for b in self.module.names.bindings(name) if b.kind == "parameter" and same(b.scope, function)), None
            )
            if binding is not None:
                before = self._env
                arguments = {
                    (function.id, parameter): self._of(a.value)
                    for parameter, a in self.residence.matched(function, call)
                }
                self._env = {**before, **arguments, (function.id, name): Home.CPU}
                try:
                    return self.uses_of(binding, (*calls, call.node), (*back, call.node))
                finally:
                    self._env = before
        return None

    def _of(self, node: Node) -> Home | None:
        return self.residence.of(node, self._env)

    def _moved(self, node: Node) -> bool:
        return self._of(node) is Home.DEVICE


def _holds(outer: Node, inner: Node) -> bool:
    return outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte


def _inside(node: Node, scope: Node) -> bool:
    return scope.start_byte <= node.start_byte < scope.end_byte or scope.parent is None


def anchor(residence: Residence, factory: Node, partner: Node) -> str | None:
    """A tensor's name from which `factory` can take its device: the partner, or an input of the function."""
    module = residence.module
    partner_text = text(partner)
    kept = partner.type == "attribute" and partner_text.startswith("self.") and partner_text.count(".") == 1
    if kept and residence.same_function(factory, partner) and residence.of(partner) is Home.DEVICE:
        return partner_text
    if partner.type == "identifier" and residence.same_function(factory, partner):
        around = {a.id for a in _with_ancestors(factory)}
        for binding in residence.reaching(partner):
            made = statement(binding.node)
            holder = made if made.type == "for_statement" else made.parent
            if binding.kind == "parameter" or (
                binding.node.start_byte < factory.start_byte
                and holder is not None
                and holder.id in around
                and made.id not in around
            ):
                return partner_text
    function = module.function(factory)
    if function is None:
        return None
    for name in residence.parameters(function):
        own = next((b for b in module.names.bindings(name) if b.kind == "parameter" and same(b.scope, function)), None)
        if own is not None and own.value is None and residence.of_binding(own) is Home.DEVICE:
            return name
    return None


def _with_ancestors(node: Node) -> list[Node]:
    found = [node]
    while found[-1].parent is not None:
        found.append(found[-1].parent)
    return found
