"""What containers hold, which name a view or a chain of methods starts from, and whether that is a buffer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.rules.classes import Attribute
from anydevice.rules.home import Home
from anydevice.rules.residence import Residence
from anydevice.source.calls import Call
from anydevice.source.syntax import field, same, strip_parens, text

CONTAINERS = frozenset({"list", "dictionary", "tuple", "list_comprehension", "dictionary_comprehension", "set"})


def elements(container: Node) -> Iterator[Node]:
    """The values in a container, those of the containers in it included."""
    if container.type in ("list", "tuple"):
        for child in container.named_children:
            yield from elements(child) if child.type in CONTAINERS else (child,)
    elif container.type in ("list_comprehension", "dictionary_comprehension"):
        body = field(container, "body")
        value = field(body, "value") if body is not None and body.type == "pair" else body
        if value is not None:
            yield from elements(value) if value.type in CONTAINERS else (value,)
    elif container.type == "binary_operator":  # `[layer] * 3`
        left = field(container, "left")
        if left is not None and left.type == "list":
            yield from elements(left)
    elif container.type == "dictionary":
        yield from (value for pair in container.named_children if (value := field(pair, "value")) is not None)


def added(use: Node) -> Iterator[Node]:
    """What is put into a container at one use: `x.append(a)`, `x += [a]`, `x[k] = a`."""
    parent = use.parent
    if parent is None:
        return
    outer = parent.parent
    if parent.type == "attribute" and outer is not None and outer.type == "call":
        call = Call(outer)
        if call.method in ("append", "insert", "add") and call.positional:
            yield call.positional[-1].value
        elif call.method in ("extend", "update") and call.positional:
            yield from elements(call.positional[0].value)
    elif parent.type == "augmented_assignment" and same(field(parent, "left"), use):
        right = field(parent, "right")
        if right is not None:
            yield from elements(right)
    elif (
        parent.type == "subscript"
        and outer is not None
        and outer.type == "assignment"
        and same(field(outer, "left"), parent)
    ):
        right = field(outer, "right")
        if right is not None:
            yield right


def root_of(node: Node) -> Node | None:
    """The name (or `self.x`) out of which a view, a chain of methods, or a container is made."""
    node = strip_parens(node)
    if node.type == "identifier" or (
        node.type == "attribute" and text(node).startswith("self.") and text(node).count(".") == 1
    ):
        return node
    inner = None
    if node.type in ("subscript",):
        inner = field(node, "value")
    elif node.type == "attribute":
        inner = field(node, "object")
    elif node.type == "call" and field(node, "function") is not None:
        call = Call(node)
        of_module = call.receiver is not None and text(call.receiver) in ("torch", "F", "copy")
        inner = call.positional[0].value if of_module and call.positional else call.receiver
    return root_of(inner) if inner is not None else None


def is_alias_of_buffer(attribute: Attribute, value: Node) -> bool:
    """Whether `value` is (part of) a tensor that is registered too, under another name."""
    root = root_of(value)
    return (
        root is not None
        and re.search(
            rf"register_buffer\([^)]*,\s*(?:tensor\s*=\s*)?{re.escape(text(root))}\s*[,)]", text(attribute.class_)
        )
        is not None
    )


def stale_root(where: Residence, attribute: Attribute) -> str | None:
    """The buffer (or parameter) whose old tensor an attribute keeps."""
    value = strip_parens(attribute.value)
    for element in elements(value) if value.type in CONTAINERS else (value,):
        root = root_of(element)
        if root is None or where.of(element) is Home.OTHER:
            continue
        if root.type == "identifier":
            if is_alias_of_buffer(attribute, element):
                return text(root)
            continue
        name = text(root).partition(".")[2]
        if _is_buffer(attribute.class_, name) and not _leaves_tensors(element):
            return f"self.{name}"
        if (
            not same(root, strip_parens(element))
            and _is_parameter(attribute.class_, name)
            and not _leaves_tensors(element)
        ):
            return f"self.{name}"
    return None


def _is_buffer(class_: Node, name: str) -> bool:
    return (
        re.search(
            rf"register_buffer\(\s*(?:name\s*=\s*)?[\"']{re.escape(name)}[\"']|self\.{re.escape(name)}\s*=\s*(?:nn|torch\.nn)\.Buffer\(",
            text(class_),
        )
        is not None
    )


def _is_parameter(class_: Node, name: str) -> bool:
    return re.search(rf"self\.{re.escape(name)}\s*=\s*(?:\w+\.)*Parameter\(", text(class_)) is not None


def _leaves_tensors(element: Node) -> bool:
    """Whether a view ends in something that is no view: a shape, a number, a copy made by a call of a function."""
    return (
        re.search(
            r"\.(?:shape|size|numel|item|tolist|dim|ndim|dtype|device|clone|numpy|requires_grad_?)\b", text(element)
        )
        is not None
    )
