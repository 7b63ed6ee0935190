"""A parsed Python document: its tree, its names, and edits made in its own coordinates."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from tree_sitter import Node, Tree

from anydevice.finding import Edit, Span
from anydevice.source.names import Names, scope_of
from anydevice.source.syntax import ancestors, enclosing, field, parse, text

if TYPE_CHECKING:
    from anydevice.source.document import Document

_BLOCK = re.compile(
    rb"(?m)^([ \t]*)(?:def|class|if|elif|else|for|while|with|try|except|finally|async)\b[^\n]*:[ \t]*(?:#[^\n]*)?\n"
    rb"(?:[ \t]*(?:#[^\n]*)?\n)*([ \t]+)(?=[^\s#])"
)
_DEFINED = re.compile(rb"(?:\b(?:def|class)[ \t]+|(?=\w+[ \t]*=[ \t]*\(?lambda\b))(\w+)")
_WORD = re.compile(rb"[A-Za-z_]\w*")
_DEFINITIONS = frozenset({"function_definition", "class_definition", "decorated_definition"})
_FUNCTION = frozenset({"function_definition"})
_CLASS = frozenset({"class_definition"})


class Module:
    """One Python file or notebook, parsed."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.data = document.data

    @cached_property
    def tree(self) -> Tree:
        """The parse tree of the UTF-8 text."""
        return parse(self.data)

    @cached_property
    def root(self) -> Node:
        """The tree's root."""
        return self.tree.root_node

    @cached_property
    def names(self) -> Names:
        """Bindings and meanings."""
        return Names(self.data, self.tree)

    def qualname(self, node: Node | None) -> str | None:
        """The dotted name that `node` stands for, see `Names.qualname`."""
        return self.names.qualname(node)

    def leaf(self, start: int, end: int) -> Node | None:
        """The smallest node that covers the byte range."""
        return self.root.descendant_for_byte_range(start, end)

    # -- places and edits --------------------------------------------------------------------------------------

    def span(self, node: Node) -> Span:
        """The place of `node`."""
        return self.document.span(node.start_byte, node.end_byte)

    def edit(self, start: int, end: int, text: str) -> Edit:
        """Replace a byte range."""
        return Edit(self.document.span(start, end), text)

    def replace(self, node: Node, text: str) -> Edit:
        """Replace `node`."""
        return self.edit(node.start_byte, node.end_byte, text)

    def insert(self, offset: int, text: str) -> Edit:
        """Insert at a byte offset."""
        return self.edit(offset, offset, text)

    def line_start(self, offset: int) -> int:
        """The offset at which the line of `offset` begins."""
        return self.data.rfind(b"\n", 0, offset) + 1

    def line_end(self, offset: int) -> int:
        """The offset just after the line of `offset`, its line end included."""
        end = self.data.find(b"\n", offset)
        return len(self.data) if end < 0 else end + 1

    def indent(self, node: Node) -> str:
        """The blanks before the line on which `node` starts."""
        start = self.line_start(node.start_byte)
        line = self.data[start : node.start_byte]
        return line[: len(line) - len(line.lstrip())].decode()

    def starts_line(self, node: Node) -> bool:
        """Whether only blanks stand before `node` on its line."""
        return not self.data[self.line_start(node.start_byte) : node.start_byte].strip()

    @cached_property
    def indent_unit(self) -> str:
        """One level of indentation as this file has it: that of its first block."""
        for match in _BLOCK.finditer(self.data):
            outer, inner = match.groups()
            unit = inner.removeprefix(outer)
            if unit and len(inner) > len(outer) and unit.strip(b" ") in (b"", b"\t"):
                return unit.decode()
        return "    "

    # -- surroundings ------------------------------------------------------------------------------------------

    def function(self, node: Node) -> Node | None:
        """The innermost `def` around `node`."""
        return enclosing(node, _FUNCTION)

    def function_name(self, node: Node) -> str | None:
        """The name of the innermost `def` around `node`."""
        function = self.function(node)
        name = field(function, "name") if function is not None else None
        return text(name) if name is not None else None

    def class_(self, node: Node) -> Node | None:
        """The innermost class around `node`."""
        return enclosing(node, _CLASS)

    def class_scope(self, node: Node) -> Node | None:
        """The class whose body holds `node` directly, outside of its methods."""
        scope = scope_of(node)
        return scope if scope.type == "class_definition" else None

    def is_top_level(self, statement: Node) -> bool:
        """Whether a statement stands directly in the module."""
        return statement.parent is not None and statement.parent.type == "module"

    def at_import(self, node: Node) -> bool:
        """Whether `node` runs when the module is imported: outside of functions, or in a default or decorator."""
        for child, parent in zip([node, *ancestors(node)], ancestors(node), strict=False):
            if parent.type == "lambda" or (
                parent.type == "function_definition" and (b := field(parent, "body")) is not None and b.id == child.id
            ):
                return False
        return True

    def may_run_before(self, node: Node, statement: Node) -> bool:
        """Whether the function around `node` may be called, for all that names tell, before a top-level `statement`."""
        holder = next((a for a in ancestors(node) if self.is_top_level(a)), None)
        if holder is None or statement.end_byte <= holder.start_byte:
            return False
        key = (holder.start_byte, statement.start_byte)
        if key not in self._early:
            self._early[key] = self._called_between(holder, statement)
        return self._early[key]

    @cached_property
    def _early(self) -> dict[tuple[int, int], bool]:
        return {}

    def _called_between(self, holder: Node, statement: Node) -> bool:
        """Whether what stands between two top-level nodes names the first one, directly or through what it calls."""
        before = [child for child in self.root.named_children if child.end_byte <= statement.start_byte]
        texts = [
            child.text or b""
            for child in before
            if child.start_byte >= holder.end_byte and child.type not in _DEFINITIONS and "import" not in child.type
        ]
        bodies: dict[bytes, bytes] = {}
        for child in before if texts else ():
            if child.type in _DEFINITIONS:
                bodies.update(dict.fromkeys(_DEFINED.findall(child.text or b""), child.text or b""))
        seen: set[bytes] = set()
        while texts:
            for name in set(_WORD.findall(texts.pop())) - seen:
                seen.add(name)
                if name in bodies:
                    texts.append(bodies[name])
        return not seen.isdisjoint(_DEFINED.findall(holder.text or b""))

    def scope(self, node: Node) -> Node:
        """The scope that holds `node` directly."""
        return scope_of(node)
