"""What is handed to whom: the calls that take a value, the modules that these calls run, and whether something else may
have moved them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.rules.held import of_binding
from anydevice.rules.home import Home
from anydevice.rules.moves import moved_by
from anydevice.rules.residence import Residence
from anydevice.rules.tensor_words import listed
from anydevice.source.calls import Call
from anydevice.source.names import Binding
from anydevice.source.syntax import field, same, text

# Functions that are given a module and do not move it.
_HARMLESS = listed(
    "print len list isinstance type id str repr summary summarize count_parameters num_params"
    " get_n_params save state_dict getattr hasattr clip_grad_norm_ parameters_to_vector sum watch next"
    " iter"
)


def takers(where: Residence, value: Node, depth: int = 0) -> Iterator[Call]:
    """The calls that are given a moved value: directly, as an element of a batch, or under a name."""
    if depth > 3:
        return
    node, parent = value, value.parent
    while parent is not None:
        if parent.type in ("subscript", "parenthesized_expression", "unary_operator", "binary_operator"):
            if parent.type == "subscript" and not same(field(parent, "value"), node):
                return
        elif parent.type == "attribute":
            outer = parent.parent
            if outer is None or outer.type != "call" or where.of(outer) is not Home.DEVICE:
                return
            parent = outer
        elif parent.type == "argument_list" and parent.parent is not None and parent.parent.type == "call":
            yield Call(parent.parent)
            return
        elif parent.type == "assignment" and same(field(parent, "right"), node):
            left = field(parent, "left")
            if left is not None and left.type == "identifier":
                yield from _takers_of(where, left, depth)
            return
        elif parent.type == "expression_list" and parent.parent is not None and parent.parent.type == "assignment":
            left = field(parent.parent, "left")
            index = [c.id for c in parent.named_children].index(node.id)
            target = (
                left.named_child(index)
                if left is not None and left.type == "pattern_list" and index < left.named_child_count
                else None
            )
            if target is not None and target.type == "identifier":
                yield from _takers_of(where, target, depth)
            return
        else:
            return
        node, parent = parent, parent.parent


def _takers_of(where: Residence, target: Node, depth: int) -> Iterator[Call]:
    for use in where.uses(text(target)):
        if use.start_byte > target.end_byte and any(b.node.id == target.id for b in where.reaching(use)):
            yield from takers(where, use, depth + 1)


def unmoved(where: Residence, call: Call) -> Iterator[Node]:
    """The names under which the modules that `call` may call were made, if nothing moves them."""
    function = call.function
    if function.type == "attribute" and text(field(function, "object") or function) == "self":
        class_ = where.module.class_(function)
        if where.is_module_class(class_) or class_ is None or where.of(function) is not Home.MODULE:
            return
        name = text(field(function, "attribute") or function)
        if not any(_escapes(where, use) for use in where.attribute_uses(class_, name)):
            yield from (target for target, value in where.attribute_values(class_, name) if value is not None)
        return
    if function.type != "identifier":
        return
    for binding in where.reaching(function):
        if binding.kind == "parameter" and binding.scope.type == "function_definition":
            for argument in where.passed(binding.scope, text(binding.node)):
                if argument.value.type == "identifier" and where.of(argument.value) is Home.MODULE:
                    yield from _kept(where, where.reaching(argument.value))
        elif of_binding(where, binding) is Home.MODULE and where.of(function) is Home.MODULE:
            yield from _kept(where, [binding])


def _kept(where: Residence, bindings: list[Binding]) -> Iterator[Node]:
    for binding in bindings:
        if binding.kind == "assignment" and not any(_escapes(where, use) for use in where.uses(text(binding.node))):
            yield binding.node


def _escapes(where: Residence, use: Node) -> bool:
    """Whether a module is moved at `use`, or handed to something that may move it."""
    if moved_by(use) is not None:
        return True
    node, parent = use, use.parent
    while parent is not None and parent.type in (
        "list",
        "tuple",
        "dictionary",
        "pair",
        "keyword_argument",
        "list_splat",
        "expression_list",
    ):
        node, parent = parent, parent.parent
    if parent is None or parent.type == "return_statement":
        return parent is not None
    if parent.type == "assignment" and same(field(parent, "right"), node):
        return True
    if parent.type in ("for_statement", "for_in_clause"):
        return True
    if parent.type != "argument_list" or parent.parent is None or parent.parent.type != "call":
        return False
    call = Call(parent.parent)
    function = where.function_of(call)
    if function is not None:
        names = [name for name, a in where.matched(function, call) if same(a.value, use)]
        return not names or re.search(rf"\b{names[0]}\s*\.(?:to|cuda)\(|\b{names[0]}\s*=", text(function)) is not None
    return text(call.function).rsplit(".", 1)[-1] not in _HARMLESS
