"""Follows a tensor made on the CPU forward through the file, to the operation where it meets one that was moved."""

from __future__ import annotations

from tree_sitter import Node

from anydevice.rules.operations import at_argument, at_attribute, at_operator, at_subscript, at_update
from anydevice.rules.passing import by_assignment, by_list, by_loop, by_return
from anydevice.rules.residence import Residence
from anydevice.rules.tensor_words import listed
from anydevice.rules.trail import PLACED, START, Meeting, Trail, Way
from anydevice.source.calls import Call
from anydevice.source.syntax import field, same

_MOST = 200  # nodes at which a tensor is looked for
_CARRIERS = listed(
    "parenthesized_expression unary_operator list_splat list tuple set list_comprehension dictionary_splat"
)


class Journey(Trail):
    """One tensor on its way, through the nodes that it has been at."""

    def __init__(self, residence: Residence) -> None:
        super().__init__(residence)
        self._seen: set[int] = set()

    def meeting(self, node: Node, way: Way = START) -> Meeting | None:
        """Where the value of `node` meets a moved tensor."""
        if node.id in self._seen or len(self._seen) > _MOST or node.parent is None:
            return None
        self._seen.add(node.id)
        parent = node.parent
        kind = parent.type
        if kind == "tuple" and parent.parent is not None and parent.parent.type == "return_statement":
            return by_list(self, node, parent, way)
        if kind in _CARRIERS:
            return self.meeting(parent, way)
        if kind == "attribute" and same(field(parent, "object"), node):
            return at_attribute(self, node, parent, way)
        if kind == "subscript":
            return at_subscript(self, node, parent, way)
        if kind in ("binary_operator", "comparison_operator"):
            return at_operator(self, node, parent, way)
        if kind == "conditional_expression":
            parts = [child for child in parent.named_children if child.type != "comment"]
            if len(parts) != 3 or same(parts[1], node):
                return None
            other = parts[2] if same(parts[0], node) else parts[0]
            return None if self.of(other) in PLACED else self.meeting(parent, way)
        if kind == "for_statement" and same(field(parent, "right"), node):
            return by_loop(self, parent, way)
        if kind == "keyword_argument" and parent.parent is not None and parent.parent.parent is not None:
            return at_argument(self, node, Call(parent.parent.parent), way)
        if kind == "argument_list" and parent.parent is not None and parent.parent.type == "call":
            return at_argument(self, node, Call(parent.parent), way)
        if (
            kind == "expression_list"
            and parent.parent is not None
            and parent.parent.type in ("return_statement", "assignment")
        ):
            return by_list(self, node, parent, way)
        if kind == "assignment" and same(field(parent, "right"), node):
            return by_assignment(self, field(parent, "left"), way)
        if kind == "augmented_assignment":
            return at_update(self, node, parent, way)
        if kind == "return_statement":
            return by_return(self, parent, way)
        return None


def meeting_of(residence: Residence, call: Node) -> Meeting | None:
    """Where the tensor that `call` makes meets a moved one; looked up once, though several rules ask."""
    known: dict[int, Meeting | None] = residence.remembered
    if call.id not in known:
        known[call.id] = Journey(residence).meeting(call)
    return known[call.id]
