"""An error-tolerant parse tree of Python source, old dialects included, and the few questions asked of its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import tree_sitter_python
from tree_sitter import Language, Node, Parser, Tree

FUNCTIONS = frozenset({"function_definition", "lambda"})
SCOPES = frozenset({"module", "function_definition", "lambda", "class_definition"})
COMPREHENSIONS = frozenset(
    {"list_comprehension", "set_comprehension", "dictionary_comprehension", "generator_expression"}
)
STATEMENT_PARENTS = frozenset({"module", "block"})


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_python.language()))


def parse(data: bytes) -> Tree:
    """Parse UTF-8 source; never fails, errors become ERROR nodes."""
    return _parser().parse(data)


def text(node: Node) -> str:
    """The source of `node`."""
    raw = node.text
    return raw.decode("utf-8", "replace") if raw is not None else ""


def ancestors(node: Node) -> Iterator[Node]:
    """The parents of `node`, innermost first."""
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def enclosing(node: Node, types: frozenset[str]) -> Node | None:
    """The innermost proper ancestor of one of `types`."""
    return next((a for a in ancestors(node) if a.type in types), None)


def statement(node: Node) -> Node:
    """The innermost statement that holds `node` (or is it): the child of a block or of the module."""
    current = node
    for parent in ancestors(node):
        if parent.type in STATEMENT_PARENTS:
            return current
        current = parent
    return current


def field(node: Node, name: str) -> Node | None:
    """The child of `node` in field `name`."""
    return node.child_by_field_name(name)


def first_named(node: Node | None) -> Node | None:
    """The first named child; None (not an error, as in the binding) where there is none."""
    return next(iter(node.named_children), None) if node is not None else None


def same(a: Node | None, b: Node | None) -> bool:
    """Whether two node objects are the same node of one tree."""
    return a is not None and b is not None and a.id == b.id


def contains(outer: Node, inner: Node) -> bool:
    """Whether `inner` stands within `outer`, or is it."""
    return outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte


def strip_parens(node: Node) -> Node:
    """`node` without the parentheses around it."""
    while node.type == "parenthesized_expression" and node.named_child_count == 1:
        inner = first_named(node)
        if inner is None:
            break
        node = inner
    return node


def walk(node: Node) -> Iterator[Node]:
    """All descendants of `node`, itself included, in source order."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.children))


def string_value(node: Node) -> str | None:
    """The text of a plain string literal; None for f-strings with fields, bytes, escapes and anything else."""
    if node.type == "concatenated_string":
        parts = [string_value(part) for part in node.named_children]
        return None if None in parts else "".join(part for part in parts if part is not None)
    if node.type != "string":
        return None
    start = node.child(0)
    if start is None or b"b" in (start.text or b"").lower():
        return None
    content = ""
    for child in node.named_children:
        if child.type == "string_content":
            if child.named_child_count:  # an escape sequence
                return None
            content += text(child)
        elif child.type not in ("string_start", "string_end"):
            return None
    return content


def is_docstring(string: Node) -> bool:
    """Whether a string stands alone as a statement: documentation, not a value."""
    parent = string.parent
    if parent is not None and parent.type == "concatenated_string":
        parent = parent.parent
    return parent is not None and parent.type == "expression_statement"
