"""Recognises expressions and statements that pick a device, whoever wrote them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tree_sitter import Node

from anydevice.source.calls import Call
from anydevice.source.module import Module
from anydevice.source.syntax import field, string_value, strip_parens, text

_AVAILABLE = re.compile(r"\bis_available\b|\bcurrent_accelerator\b")
CUDA_NAME = re.compile(r"cuda(?::\d+)?\Z")


@dataclass(frozen=True)
class Choice:
    """`node` evaluates to a device. `is_string`: to its name rather than to a torch.device.

    `indexed`: to one device by number; `fixed`: always to CUDA, no alternative is written.
    """

    node: Node
    is_string: bool
    indexed: bool = False
    fixed: bool = False


def asks_availability(module: Module, node: Node) -> bool:
    """Whether a condition asks if there is an accelerator, directly or through a flag set by such a question."""
    if _AVAILABLE.search(text(node)):
        return True
    node = strip_parens(node)
    if node.type == "not_operator":
        inner = field(node, "argument")
        return inner is not None and asks_availability(module, inner)
    if node.type == "boolean_operator":
        return any(asks_availability(module, side) for side in node.named_children)
    if node.type == "identifier":
        bindings = module.names.lookup(node)
        return bool(bindings) and all(
            b.value is not None and b.kind == "assignment" and bool(_AVAILABLE.search(text(b.value))) for b in bindings
        )
    return False


def device_value(module: Module, node: Node) -> Choice | None:
    """The choice of a device that `node` makes, or None."""
    node = strip_parens(node)
    value = string_value(node)
    if value is not None:
        return Choice(node, True, ":" in value, True) if CUDA_NAME.match(value) else None
    if node.type == "conditional_expression":
        return _conditional(module, node)
    if node.type == "call":
        return _call(module, node)
    return None


def _conditional(module: Module, node: Node) -> Choice | None:
    parts = [child for child in node.named_children if child.type != "comment"]
    if len(parts) != 3 or not asks_availability(module, parts[1]):
        return None
    for branch in (parts[0], parts[2]):
        choice = device_value(module, branch)
        if choice is not None:
            return Choice(node, choice.is_string, choice.indexed)
    return None


def _call(module: Module, node: Node) -> Choice | None:
    call = Call(node)
    name = module.qualname(call.function) or ""
    if name == "torch.accelerator.current_accelerator":
        return Choice(node, False)
    if name != "torch.device":
        return None
    kind, index = call.argument(0, "type", "device"), call.argument(1, "index")
    inner = device_value(module, kind.value) if kind is not None else None
    if inner is None:
        return None
    return Choice(node, False, inner.indexed or index is not None, inner.fixed)
