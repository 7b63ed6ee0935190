"""Moves and casts of one value: the moves that it meets with its dtype unchanged, and the cast that follows at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Edit
from anydevice.rules.moves import move_target
from anydevice.rules.residence import residence
from anydevice.rules.site import Context
from anydevice.source.calls import Call
from anydevice.source.syntax import field, first_named, same, statement, text

_CASTS = {
    "float": "float32",
    "half": "float16",
    "bfloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "bool": "bool",
    "byte": "uint8",
}


def moves_before_cast(context: Context, node: Node, depth: int = 0) -> Iterator[Call]:
    """The `.to(device)` calls that a value of unchanged dtype meets."""
    if depth > 3:
        return
    current, parent = node, node.parent
    while parent is not None:
        if parent.type in ("subscript", "parenthesized_expression"):
            current, parent = parent, parent.parent
            continue
        if parent.type == "attribute" and parent.parent is not None and parent.parent.type == "call":
            call = Call(parent.parent)
            if call.method == "to" and call.arguments:
                if move_target(residence(context), call) is not None:
                    yield call
                return
            if call.method in _CASTS or call.method in (
                "type",
                "type_as",
                "cuda",
                "cpu",
                "double",
                "numpy",
                "item",
                "tolist",
            ):
                return
            current, parent = parent.parent, parent.parent.parent
            continue
        break
    if parent is not None and parent.type == "assignment" and same(field(parent, "right"), current):
        left = field(parent, "left")
        if left is not None and left.type == "identifier":
            where = residence(context)
            for use in where.uses(text(left)):
                if use.start_byte > left.end_byte and [b.node.id for b in where.reaching(use)] == [left.id]:
                    yield from moves_before_cast(context, use, depth + 1)


def cast_after(context: Context, move: Node) -> tuple[Edit, str] | None:
    """(the edit that removes the cast, its dtype) when the moved tensor is cast at once."""
    module = context.module
    attribute = move.parent
    if (
        attribute is not None
        and attribute.type == "attribute"
        and attribute.parent is not None
        and attribute.parent.type == "call"
    ):
        dtype = _cast_of(Call(attribute.parent))
        return (module.edit(move.end_byte, attribute.parent.end_byte, ""), dtype) if dtype is not None else None
    owner = statement(move)
    following = owner.next_named_sibling
    first, second = first_named(owner), first_named(following)
    if (
        first is None
        or second is None
        or first.type != "assignment"
        or second.type != "assignment"
        or not module.starts_line(owner)
    ):
        return None
    name, again, value = field(first, "left"), field(second, "left"), field(second, "right")
    if name is None or again is None or value is None or text(name) != text(again) or value.type != "call":
        return None
    call = Call(value)
    if not same(field(first, "right"), move) or call.receiver is None or text(call.receiver) != text(name):
        return None
    dtype = _cast_of(call)
    if dtype is None or following is None:
        return None
    return module.edit(module.line_start(following.start_byte), module.line_end(following.end_byte - 1), ""), dtype


def _cast_of(call: Call) -> str | None:
    if call.method in _CASTS and not call.arguments:
        return _CASTS[call.method]
    if call.method in ("to", "type") and len(call.arguments) == 1:
        match = re.fullmatch(
            r"torch\.(float32|float16|bfloat16|float|half|long|int64|int32|int)", text(call.arguments[0].value)
        )
        if match is not None and call.arguments[0].name in (None, "dtype"):
            return _CASTS.get(match.group(1), match.group(1))
    return None
