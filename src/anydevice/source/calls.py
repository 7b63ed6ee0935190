"""A call's arguments, and the edits that change them without touching the rest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tree_sitter import Node

from anydevice.source.syntax import field, first_named, text


@dataclass(frozen=True)
class Argument:
    """One argument of a call. `name` is its keyword; `starred` marks `*args` and `**kwargs`."""

    node: Node
    value: Node
    name: str | None = None
    starred: bool = False


@dataclass(frozen=True)
class Call:
    """A call expression `function(arguments)`."""

    node: Node

    @cached_property
    def function(self) -> Node:
        """The expression that is called."""
        function = field(self.node, "function")
        assert function is not None
        return function

    @cached_property
    def receiver(self) -> Node | None:
        """The `x` of `x.method(...)`."""
        return field(self.function, "object") if self.function.type == "attribute" else None

    @cached_property
    def method(self) -> str | None:
        """The `method` of `x.method(...)`."""
        attribute = field(self.function, "attribute") if self.function.type == "attribute" else None
        return text(attribute) if attribute is not None else None

    @cached_property
    def argument_list(self) -> Node:
        """The parenthesised arguments (or the generator expression that stands in for them)."""
        arguments = field(self.node, "arguments")
        assert arguments is not None
        return arguments

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """All arguments in source order."""
        if self.argument_list.type != "argument_list":
            return (Argument(self.argument_list, self.argument_list),)
        return tuple(_argument(child) for child in self.argument_list.named_children if child.type != "comment")

    @cached_property
    def positional(self) -> tuple[Argument, ...]:
        """The plain positional arguments, up to the first `*args`."""
        found = []
        for argument in self.arguments:
            if argument.starred:
                break
            if argument.name is None:
                found.append(argument)
        return tuple(found)

    @property
    def has_star(self) -> bool:
        """Whether some arguments are hidden in `*args` or `**kwargs`."""
        return any(argument.starred for argument in self.arguments)

    def keyword(self, *names: str) -> Argument | None:
        """The keyword argument of one of `names`."""
        return next((a for a in self.arguments if a.name in names), None)

    def argument(self, position: int | None, *names: str) -> Argument | None:
        """The argument at `position` (0-based) or given by keyword as one of `names`."""
        if position is not None and position < len(self.positional):
            return self.positional[position]
        return self.keyword(*names)

    def removal(self, argument: Argument) -> tuple[int, int]:
        """The byte range to delete so that `argument` and one comma beside it go."""
        siblings = list(self.argument_list.children)
        index = next(i for i, child in enumerate(siblings) if child.id == argument.node.id)
        after = siblings[index + 1] if index + 1 < len(siblings) else None
        if after is not None and after.type == ",":
            follower = siblings[index + 2] if index + 2 < len(siblings) else None
            last = follower is None or follower.type in (")", "comment")
            return argument.node.start_byte, after.end_byte if last or follower is None else follower.start_byte
        before = siblings[index - 1] if index else None
        if before is not None and before.type == ",":
            return before.start_byte, argument.node.end_byte
        return argument.node.start_byte, argument.node.end_byte

    def insertion(self, addition: str) -> tuple[int, str]:
        """Where and what to insert so that `addition` becomes the last argument."""
        if not self.arguments:
            return self.argument_list.start_byte + 1, addition
        last = self.arguments[-1]
        if last.starred and text(last.node).startswith("**"):
            return last.node.start_byte, f"{addition}, "
        return last.node.end_byte, f", {addition}"


def _argument(node: Node) -> Argument:
    if node.type == "keyword_argument":
        name, value = field(node, "name"), field(node, "value")
        if name is not None and value is not None:
            return Argument(node, value, name=text(name))
    if node.type in ("list_splat", "dictionary_splat"):
        return Argument(node, first_named(node) or node, starred=True)
    return Argument(node, node)
