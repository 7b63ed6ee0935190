"""Where a name that stands for a legacy type is used, through further names and functions of the file."""

from __future__ import annotations

from dataclasses import dataclass, field

from tree_sitter import Node

from anydevice.rules.typed import Role, attribute_mentions, mentions, use
from anydevice.source.calls import Call
from anydevice.source.module import Module
from anydevice.source.syntax import field as child
from anydevice.source.syntax import first_named, same, text

_DEPTH = 3  # names of names, and functions that a type is handed to


@dataclass
class Uses:
    """What is done with a named type. `followed`: it was handed to a function of the file, and seen there."""

    made: list[Node] = field(default_factory=list)
    converted: list[Call] = field(default_factory=list)
    tested: list[Node] = field(default_factory=list)
    passed: list[Node] = field(default_factory=list)
    followed: bool = False


def target_of(holder: Node, value: Node) -> Node | None:
    """The name that an assignment or a parameter gives to `value`."""
    if holder.type != "assignment":
        return child(holder, "name")
    if holder.parent is not None and holder.parent.type == "assignment":
        return None  # a = b = value
    left, right = child(holder, "left"), child(holder, "right")
    if left is None or right is None or same(right, value):
        return left if left is not None and left.type in ("identifier", "attribute") else None
    if left.named_child_count != right.named_child_count:
        return None
    index = next((i for i, one in enumerate(right.named_children) if same(one, value)), None)
    found = left.named_children[index] if index is not None else None
    return found if found is not None and found.type in ("identifier", "attribute") else None


def uses_of(module: Module, target: Node, depth: int = 0) -> Uses:
    """What is done with the name `target`, as far as the file shows."""
    uses = Uses()
    if depth > _DEPTH:
        uses.passed.append(target)
        return uses
    nodes = (
        mentions(module, text(target), target) if target.type == "identifier" else attribute_mentions(module, target)
    )
    for node in nodes:
        usage = use(module, node)
        if usage.role in (Role.CALLED, Role.CHOSEN, Role.MAPPED):
            uses.made.append(node)
        elif usage.role is Role.CONVERTS and same(usage.value, node):
            uses.converted.append(Call(usage.holder))
        elif usage.role in (Role.TESTS, Role.DEFAULT):
            uses.tested.append(node)
        elif (
            usage.role is Role.NAMED
            and (alias := target_of(usage.holder, usage.value)) is not None
            and alias.type == "identifier"
        ):
            _merge(uses, uses_of(module, alias, depth + 1))
        elif (parameter := _parameter(module, node, usage.holder)) is not None:
            _merge(uses, uses_of(module, parameter, depth + 1))
            uses.followed = True
        elif usage.role is not Role.ANNOTATES:
            uses.passed.append(node)
    return uses


def _merge(uses: Uses, more: Uses) -> None:
    uses.made += more.made
    uses.converted += more.converted
    uses.tested += more.tested
    uses.passed += more.passed
    uses.followed = uses.followed or more.followed


def _parameter(module: Module, node: Node, argument: Node) -> Node | None:
    """The parameter, of a function of this file, that `node` is given to."""
    arguments = argument.parent
    outer = arguments.parent if arguments is not None and arguments.type == "argument_list" else None
    if outer is None or outer.type != "call":
        return None
    call = Call(outer)
    bindings = module.names.lookup(call.function) if call.function.type == "identifier" else ()
    if len(bindings) != 1 or bindings[0].kind != "function" or bindings[0].value is None:
        return None
    given = next((a for a in call.arguments if same(a.value, node)), None)
    parameters = child(bindings[0].value, "parameters")
    if given is None or given.starred or parameters is None:
        return None
    names = [_parameter_name(one) for one in parameters.named_children if one.type != "comment"]
    if given.name is not None:
        return next((name for name in names if name is not None and text(name) == given.name), None)
    position = next((i for i, a in enumerate(call.positional) if same(a.value, node)), None)
    return names[position] if position is not None and position < len(names) else None


def _parameter_name(parameter: Node) -> Node | None:
    if parameter.type == "identifier":
        return parameter
    if parameter.type in ("default_parameter", "typed_default_parameter"):
        return child(parameter, "name")
    if parameter.type == "typed_parameter":
        first = first_named(parameter)
        return first if first is not None and first.type == "identifier" else None
    return None
