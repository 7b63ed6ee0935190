"""What comes first: a use of a module, or the move of it; and the name by which both know the module."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from anydevice.rules.home import Home
from anydevice.rules.moves import moves_of
from anydevice.rules.residence import Residence
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, field, same, statement, text

_ENDS = frozenset({"to", "cuda", "cpu", "state_dict"})  # what is given to the name is then another thing


def move_after(where: Residence, name: str, node: Node) -> Call | None:
    """The first move of the module `name` after `node` in the same function, if there was none before."""
    module = where.module
    moves = [m for m in moves_of(where, name, node) if where.same_function(m.node, node)]
    first = moves[0] if moves else None
    if first is None or first.node.start_byte < node.end_byte:
        return None
    if _apart(node, first.node) or _made_moved(where, name, node):
        return None
    if "." not in name:
        bound = [b.node.start_byte for b in module.names.bindings(name) if where.same_function(b.node, node)]
        own = statement(first.node)
        if any(
            node.end_byte < start < first.node.start_byte and not own.start_byte <= start < own.end_byte
            for start in bound
        ):
            return None
    return first


def _made_moved(where: Residence, name: str, node: Node) -> bool:
    """Whether the module was on the device when it got its name."""
    root, _, attribute = name.rpartition(".")
    if root == "self":
        class_ = where.module.class_(node)
        given = list(where.attribute_values(class_, attribute)) if class_ is not None else []
        values = [
            v
            for t, v in given
            if v is not None and not (where.same_function(t, node) and t.start_byte > node.start_byte)
        ]
        return any(where.of(value) in (Home.MOVED_MODULE, Home.DEVICE, Home.PLACED) for value in values)
    for leaf in where.module.names.occurrences(name):
        if node.start_byte <= leaf.start_byte < node.end_byte:
            return where.of(leaf) in (Home.MOVED_MODULE, Home.DEVICE)
    return False


def _apart(a: Node, b: Node) -> bool:
    """Whether two nodes stand in different branches of one `if`, so that only one of them runs."""
    above = {parent.id: child for child, parent in _steps(a)}
    for child, parent in _steps(b):
        other = above.get(parent.id)
        if other is not None:
            return parent.type == "if_statement" and not same(child, other)
    return False


def _steps(node: Node) -> Iterator[tuple[Node, Node]]:
    child = node
    for parent in ancestors(node):
        yield child, parent
        child = parent


def prefixes(name: str) -> list[str]:
    """`self.net.head` -> itself, `self.net`."""
    parts = name.split(".")
    least = 2 if parts[0] == "self" else 1
    return [".".join(parts[:count]) for count in range(len(parts), least - 1, -1)]


def assigned_name(node: Node) -> str | None:
    """The name or `self.x` that a call's result is given, through `.eval()` and `.requires_grad_(False)`."""
    current = node
    while current.parent is not None and current.parent.type in ("attribute", "call"):
        attribute = field(current.parent, "attribute") if current.parent.type == "attribute" else None
        if attribute is not None and text(attribute) in _ENDS:
            return None
        current = current.parent
    holder = current.parent
    if holder is None or holder.type != "assignment" or not same(field(holder, "right"), current):
        return None
    left = field(holder, "left")
    return text(left) if left is not None and left.type in ("identifier", "attribute") else None


def used_after(where: Residence, name: str, node: Node) -> bool:
    """Whether `name` is used after `node`, or anywhere in another function."""
    return any(
        leaf.start_byte > node.end_byte or not where.same_function(leaf, node)
        for leaf in where.module.names.occurrences(name.rsplit(".", 1)[-1])
    )
