"""How a tensor gets from one expression to another: by a name, an attribute, a loop, as an argument, as what a function
returns."""

from __future__ import annotations

from tree_sitter import Node

from anydevice.rules.held import of_binding
from anydevice.rules.home import Home
from anydevice.rules.trail import PLACED, START, Meeting, Trail, Way
from anydevice.source.calls import Call
from anydevice.source.names import Binding
from anydevice.source.syntax import FUNCTIONS, contains, enclosing, field, same, text


def by_list(trail: Trail, node: Node, listed: Node, way: Way) -> Meeting | None:
    """One of `a, b` that is returned or assigned."""
    owner = listed.parent
    index = [child.id for child in listed.named_children].index(node.id)
    if owner is not None and owner.type == "return_statement":
        return by_return(trail, owner, way, index)
    left = field(owner, "left") if owner is not None and owner.type == "assignment" else None
    if left is None:
        return trail.meeting(listed, way)
    if left.type != "pattern_list":
        return by_assignment(trail, left, way)
    return by_assignment(trail, left.named_child(index), way) if index < left.named_child_count else None


def by_loop(trail: Trail, loop: Node, way: Way) -> Meeting | None:
    """What a loop takes out of the value: each element lives where the whole does."""
    target = field(loop, "left")
    if target is None:
        return None
    for binding in trail.residence.bound_in(target):
        if of_binding(trail.residence, binding, trail.env) is Home.CPU:
            found = uses_of(trail, binding, way)
            if found is not None:
                return found
    return None


def by_assignment(trail: Trail, target: Node | None, way: Way) -> Meeting | None:
    """The value is given to a name, to several, or to `self.name`."""
    if target is None:
        return None
    if target.type in ("pattern_list", "tuple_pattern"):
        for child in target.named_children:
            found = by_assignment(trail, child, way)
            if found is not None:
                return found
        return None
    if target.type == "identifier":
        binding = next((b for b in trail.module.names.bindings(text(target)) if b.node.id == target.id), None)
        return uses_of(trail, binding, way) if binding is not None else None
    if target.type == "attribute" and text(field(target, "object") or target) == "self":
        function, class_ = trail.module.function(target), trail.module.class_(target)
        if trail.residence.runs_after_move(function) or not trail.residence.is_module_class(class_):
            return _kept(trail, target, Way(way.calls))
    return None


def uses_of(trail: Trail, binding: Binding, way: Way = START) -> Meeting | None:
    """Where the value that a name is bound to meets a moved tensor."""
    for leaf in trail.residence.uses(text(binding.node)):
        if leaf.start_byte <= binding.node.start_byte or not _inside(leaf, binding.scope):
            continue
        reaching = trail.residence.reaching(leaf)
        if not any(b.node.id == binding.node.id for b in reaching):
            continue
        if any(
            b.kind != "parameter"
            and b.node.id != binding.node.id
            and of_binding(trail.residence, b, trail.env) in PLACED
            for b in reaching
        ):
            continue
        found = trail.meeting(leaf, way)
        if found is not None:
            return found
    return None


def _kept(trail: Trail, target: Node, way: Way) -> Meeting | None:
    """Where a CPU tensor that is kept as `self.name` (`target`) meets a moved one."""
    class_ = trail.module.class_(target)
    name = text(field(target, "attribute") or target)
    if class_ is None or trail.residence.of_attribute(target, name) is not Home.CPU:
        return None
    for use in trail.residence.attribute_uses(class_, name):
        if use.start_byte == target.start_byte:
            continue
        found = trail.meeting(use, way)
        if found is not None:
            return found
    return None


def by_return(trail: Trail, returned: Node, way: Way, index: int | None = None) -> Meeting | None:
    """The value (number `index` of several) goes back to who called."""
    function = enclosing(returned, FUNCTIONS)
    if function is None or function.type != "function_definition":
        return None
    if any(trail.of(value) in PLACED for value in trail.residence.returns(function)):
        return None
    if way.back:
        return _arrived(trail, way.back[-1], index, Way(way.calls, way.back[:-1]))
    for call in trail.residence.callers(function):
        if trail.module.function_name(function) in ("__init__", "__getitem__", "__call__", "__len__"):
            return None
        target = trail.residence.function_of(call)
        if target is None or not same(target, function):
            continue
        found = _arrived(trail, call.node, index, Way((*way.calls, call.node)))
        if found is not None:
            return found
    return None


def _arrived(trail: Trail, call: Node, index: int | None, way: Way) -> Meeting | None:
    """The value of a call; one of several values is only followed where they are unpacked."""
    if index is None:
        return trail.meeting(call, way)
    holder = call.parent
    left = field(holder, "left") if holder is not None and holder.type == "assignment" else None
    if left is None or left.type != "pattern_list" or index >= left.named_child_count:
        return None
    return by_assignment(trail, left.named_child(index), way)


def by_argument(trail: Trail, node: Node, call: Call, function: Node, way: Way) -> Meeting | None:
    """The tensor becomes a parameter of a function of this file."""
    if len(way.back) > 3:
        return None
    for name, argument in trail.residence.matched(function, call):
        if not contains(argument.value, node):
            continue
        binding = next(
            (b for b in trail.module.names.bindings(name) if b.kind == "parameter" and same(b.scope, function)), None
        )
        if binding is not None:
            before = trail.env
            arguments = {
                (function.id, parameter): trail.of(a.value) for parameter, a in trail.residence.matched(function, call)
            }
            trail.env = {**before, **arguments, (function.id, name): Home.CPU}
            try:
                return uses_of(trail, binding, Way((*way.calls, call.node), (*way.back, call.node)))
            finally:
                trail.env = before
    return None


def _inside(node: Node, scope: Node) -> bool:
    return scope.start_byte <= node.start_byte < scope.end_byte or scope.parent is None
