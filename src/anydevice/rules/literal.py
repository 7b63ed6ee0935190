"""Device literals: `"cuda"`, `"cuda:1"`, and the ways people put an index into one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tree_sitter import Node

from anydevice.source.calls import Call
from anydevice.source.module import Module
from anydevice.source.syntax import ancestors, field, first_named, same, string_value, strip_parens, text

_PLAIN = re.compile(r"cuda(?::(\d+))?\Z")


@dataclass(frozen=True)
class DeviceLiteral:
    """A spelled-out CUDA device.

    `node` is the expression that makes the string, `index` the source of its number (None: no number), `device_call`
    the `torch.device(...)` around it. `in_choice_argument`: the literal is a branch of a conditional expression that
    is itself the argument of `torch.device` or of `.to`.
    """

    node: Node
    index: str | None
    device_call: Node | None = None
    in_choice_argument: bool = False


def device_literal(module: Module, string: Node) -> DeviceLiteral | None:
    """The literal that begins with the string node `string`, or None when it spells no CUDA device."""
    found = _spelled(module, string)
    if found is None:
        return None
    node, index = found
    outer = node
    parent = node.parent
    while parent is not None and parent.type == "parenthesized_expression":
        outer, parent = parent, parent.parent
    if parent is not None and parent.type == "argument_list" and parent.parent is not None:
        call = Call(parent.parent) if parent.parent.type == "call" else None
        if call is not None and module.qualname(call.function) == "torch.device":
            first, second = call.argument(0, "type", "device"), call.argument(1, "index")
            if first is not None and same(strip_parens(first.value), node):
                if second is not None and index is None:
                    index = text(second.value)
                return DeviceLiteral(node, index, call.node)
    return DeviceLiteral(node, index, None, _in_choice_argument(module, outer))


def _in_choice_argument(module: Module, node: Node) -> bool:
    parent = node.parent
    if parent is None or parent.type != "conditional_expression":
        return False
    current = parent
    for holder in ancestors(parent):
        if holder.type == "argument_list" and holder.parent is not None and holder.parent.type == "call":
            call = Call(holder.parent)
            first = call.argument(0, "device", "type")
            if first is None or not any(same(current, n) for n in (first.value, first.node)):
                return False
            return module.qualname(call.function) == "torch.device" or call.method == "to"
        if holder.type not in ("parenthesized_expression", "keyword_argument", "conditional_expression"):
            return False
        current = holder
    return False


def _spelled(module: Module, string: Node) -> tuple[Node, str | None] | None:
    """(the whole expression, the source of the index)."""
    plain = string_value(string)
    if plain is None:
        return _f_string(string)
    match = _PLAIN.match(plain)
    parent = string.parent
    if match and not (parent is not None and parent.type in ("binary_operator", "concatenated_string")):
        return string, match.group(1)
    if parent is None:
        return None
    if parent.type == "binary_operator" and same(field(parent, "left"), string):
        return _operator(parent, plain)
    if parent.type == "attribute" and plain in ("cuda:{}", "cuda:{0}", "cuda:{:d}"):
        call = parent.parent
        if call is not None and call.type == "call" and text(field(parent, "attribute") or parent) == "format":
            arguments = Call(call).positional
            return (call, text(arguments[0].value)) if len(arguments) == 1 else None
    return None


def _operator(operator: Node, plain: str) -> tuple[Node, str] | None:
    right = field(operator, "right")
    sign = field(operator, "operator")
    if right is None or sign is None:
        return None
    right = strip_parens(right)
    if sign.type == "%" and plain in ("cuda:%d", "cuda:%s", "cuda:%i"):
        if right.type == "tuple":
            if right.named_child_count != 1 or (only := first_named(right)) is None:
                return None
            right = only
        return operator, text(right)
    if sign.type == "+" and plain == "cuda:":
        if right.type == "call" and text(Call(right).function) in ("str", "repr") and len(Call(right).positional) == 1:
            return operator, text(Call(right).positional[0].value)
        return operator, f"int({text(right)})"
    return None


def _f_string(string: Node) -> tuple[Node, str] | None:
    parts = [c for c in string.named_children if c.type not in ("string_start", "string_end")]
    if (
        len(parts) != 2
        or parts[0].type != "string_content"
        or text(parts[0]) != "cuda:"
        or parts[1].type != "interpolation"
    ):
        return None
    expression = field(parts[1], "expression")
    if expression is None or parts[1].named_child_count != 1:
        return None
    return string, text(expression)
