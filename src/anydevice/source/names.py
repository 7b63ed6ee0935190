"""What a name means here: import aliases, scopes, shadowing, and simple constants. All looked up on demand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tree_sitter import Node, Tree

from anydevice.source.syntax import (
    COMPREHENSIONS,
    FUNCTIONS,
    SCOPES,
    ancestors,
    field,
    first_named,
    same,
    string_value,
    text,
)
from anydevice.source.words import words

_PARAMETERS = frozenset({"parameters", "lambda_parameters"})
_PATTERNS = frozenset(
    {
        "pattern_list",
        "tuple_pattern",
        "list_pattern",
        "list_splat_pattern",
        "as_pattern_target",
        "parenthesized_expression",
        "tuple",
        "list",
        "expression_list",
    }
)
_DEPTH = 12  # how many aliases of aliases are followed


@dataclass(frozen=True)
class Binding:
    """One place where a name gets a meaning.

    `kind` is import, assignment, parameter, function, class, or other (loop targets, `with ... as`, `del`...).
    `value` is the right-hand side of a plain `name = value`, or a parameter's default;
    `target` the dotted name that an import binds (relative imports keep their dots).
    """

    node: Node
    kind: str
    scope: Node
    value: Node | None = None
    target: str | None = None


class Names:
    """The names of one parsed file."""

    def __init__(self, data: bytes, tree: Tree) -> None:
        self._data = data
        self._root = tree.root_node
        self._bindings: dict[str, tuple[Binding, ...]] = {}

    # -- occurrences and bindings ------------------------------------------------------------------------------

    def occurrences(self, name: str) -> Iterator[Node]:
        """Every identifier spelled `name` (attributes and keywords included), in source order."""
        for start, end in words(self._data, name.encode()):
            leaf = self._root.descendant_for_byte_range(start, end)
            if leaf is not None and leaf.type == "identifier" and leaf.end_byte - leaf.start_byte == end - start:
                yield leaf

    def bindings(self, name: str) -> tuple[Binding, ...]:
        """Every binding of `name` in the file."""
        if name not in self._bindings:
            found = (_binding(node) for node in self.occurrences(name))
            self._bindings[name] = tuple(binding for binding in found if binding is not None)
        return self._bindings[name]

    def references(self, name: str) -> Iterator[Node]:
        """The uses of `name` as a variable that are not bindings."""
        for node in self.occurrences(name):
            if not _is_label(node) and _binding(node) is None:
                yield node

    def lookup(self, identifier: Node) -> tuple[Binding, ...]:
        """The bindings that `identifier` may refer to: those of the innermost scope that has any."""
        candidates = self.bindings(text(identifier))
        if not candidates:
            return ()
        by_scope: dict[int, list[Binding]] = {}
        for binding in candidates:
            by_scope.setdefault(binding.scope.id, []).append(binding)
        inside_function = False
        for scope in ancestors(identifier):
            if scope.type in COMPREHENSIONS and scope.id in by_scope:
                return tuple(by_scope[scope.id])
            if scope.type not in SCOPES:
                continue
            # A class body is not visible from the functions in it.
            if scope.id in by_scope and not (scope.type == "class_definition" and inside_function):
                return tuple(by_scope[scope.id])
            inside_function = inside_function or scope.type in FUNCTIONS
        return ()

    def is_free(self, name: str) -> bool:
        """Whether nothing in the file is called `name` (as a variable; attributes and keywords do not count)."""
        return all(_is_label(node) for node in self.occurrences(name))

    # -- imports -----------------------------------------------------------------------------------------------

    @cached_property
    def import_statements(self) -> tuple[Node, ...]:
        """Every import statement of the file."""
        found: dict[int, Node] = {}
        for start, end in words(self._data, b"import"):
            leaf = self._root.descendant_for_byte_range(start, end)
            node = leaf.parent if leaf is not None and leaf.type == "import" else None
            if node is not None and node.type.endswith(("import_statement", "import_from_statement")):
                found[node.start_byte] = node
        return tuple(found.values())

    @cached_property
    def imports(self) -> tuple[Binding, ...]:
        """Every name bound by an import."""
        found = []
        for node in self.import_statements:
            for child in node.children_by_field_name("name"):
                name = field(child, "alias") if child.type == "aliased_import" else first_named(child)
                binding = _binding(name) if name is not None else None
                if binding is not None:
                    found.append(binding)
        return tuple(found)

    @cached_property
    def star_imports(self) -> tuple[str, ...]:
        """The modules of `from module import *`."""
        return tuple(
            text(module)
            for node in self.import_statements
            if any(child.type == "wildcard_import" for child in node.children)
            for module in node.children_by_field_name("module_name")
        )

    # -- meaning -----------------------------------------------------------------------------------------------

    def qualname(self, node: Node | None, depth: int = 0) -> str | None:
        """The dotted name that `node` stands for (`torch.cuda.amp.autocast`), through aliases; None when unknown."""
        if node is None or depth > _DEPTH:
            return None
        if node.type == "attribute":
            owner = self.qualname(field(node, "object"), depth + 1)
            attribute = field(node, "attribute")
            return f"{owner}.{text(attribute)}" if owner and attribute is not None else None
        if node.type == "dotted_name":
            return text(node)
        if node.type != "identifier":
            return None
        bindings = self.lookup(node)
        if not bindings:
            return self._unbound(text(node))
        targets = {binding.target for binding in bindings if binding.kind == "import"}
        if targets and all(binding.kind == "import" for binding in bindings):
            torch = sorted(t for t in targets if t and t.split(".")[0] == "torch")
            return torch[0] if torch else sorted(t for t in targets if t)[0]
        if len(bindings) == 1 and bindings[0].value is not None and bindings[0].kind == "assignment":
            value = bindings[0].value
            if value.type in ("attribute", "identifier") and not same(value, node):
                return self.qualname(value, depth + 1)
        if targets:  # `torch = None` after a failed import does not change what torch means elsewhere
            others = [b for b in bindings if b.kind != "import"]
            if all(b.value is not None and b.value.type in ("none", "false") for b in others):
                return sorted(t for t in targets if t)[0]
        return None

    def _unbound(self, name: str) -> str | None:
        if name == "torch":
            return name  # a notebook cell, a snippet, or a star import brings it
        known = {"nn": "torch.nn", "F": "torch.nn.functional", "DataLoader": "torch.utils.data.DataLoader"}
        if self.star_imports and name in known:
            return known[name]
        for module in self.star_imports:
            if module.split(".")[0] == "torch":
                return f"{module}.{name}"
        return None

    def constant(self, node: Node) -> str | None:
        """The string that `node` is: a literal, or a name bound once to one."""
        if node.type == "identifier":
            bindings = self.lookup(node)
            if len(bindings) == 1 and bindings[0].kind == "assignment" and bindings[0].value is not None:
                return string_value(bindings[0].value)
            return None
        return string_value(node)


def scope_of(node: Node) -> Node:
    """The module, class, function or lambda whose body holds `node` directly."""
    last = node
    for parent in ancestors(node):
        last = parent
        if parent.type in SCOPES:
            return parent
    return last


def _is_label(node: Node) -> bool:
    """Whether an identifier is no variable at all: `.name`, `name=` of a call, a module path."""
    parent = node.parent
    if parent is None:
        return False
    if parent.type == "attribute":
        return same(field(parent, "attribute"), node)
    if parent.type == "keyword_argument":
        return same(field(parent, "name"), node)
    if parent.type == "dotted_name":
        return _import_binding(node) is None
    if parent.type == "aliased_import":
        return not same(field(parent, "alias"), node)
    return False


def _import_binding(node: Node) -> tuple[Node, str] | None:
    """(import statement, dotted target) when `node` is the identifier that an import binds."""
    parent = node.parent
    if parent is None:
        return None
    alias = None
    dotted = parent
    if parent.type == "aliased_import":
        if not same(field(parent, "alias"), node):
            return None
        alias, name = parent, field(parent, "name")
        if name is None:
            return None
        dotted = name
        holder = alias.parent
    elif parent.type == "dotted_name":
        if parent.parent is not None and parent.parent.type == "aliased_import":
            return None
        holder = parent.parent
        if not same(first_named(parent), node):
            return None
    else:
        return None
    if holder is None:
        return None
    if holder.type == "import_statement":
        return holder, text(dotted) if alias is not None else text(node)
    if holder.type == "import_from_statement":
        module = field(holder, "module_name")
        if module is None or same(module, dotted):
            return None
        prefix = text(module)
        return holder, f"{prefix}{text(dotted)}" if prefix.endswith(".") else f"{prefix}.{text(dotted)}"
    return None


def _binding(node: Node) -> Binding | None:
    """The binding that the identifier `node` makes, if it makes one."""
    parent = node.parent
    if parent is None:
        return None
    imported = _import_binding(node)
    if imported is not None:
        return Binding(node, "import", scope_of(node), target=imported[1])
    if _is_label(node):
        return None
    if parent.type in ("function_definition", "class_definition") and same(field(parent, "name"), node):
        return Binding(node, parent.type.removesuffix("_definition"), scope_of(parent), value=parent)
    parameter = _parameter(node, parent)
    if parameter is not None:
        return parameter
    target, holder = node, parent
    while holder.type in _PATTERNS and holder.parent is not None:
        target, holder = holder, holder.parent
    if holder.type in ("assignment", "augmented_assignment") and same(field(holder, "left"), target):
        plain = holder.type == "assignment" and target.id == node.id
        kind = "assignment" if plain else "other"
        return Binding(node, kind, _assignment_scope(node), value=field(holder, "right") if plain else None)
    if holder.type == "named_expression" and same(field(holder, "name"), target):
        return Binding(node, "assignment", scope_of(node), value=field(holder, "value"))
    if holder.type == "for_statement" and same(field(holder, "left"), target):
        return Binding(node, "other", scope_of(node))
    if holder.type == "for_in_clause" and same(field(holder, "left"), target):
        comprehension = next((a for a in ancestors(holder) if a.type in COMPREHENSIONS), None)
        return Binding(node, "other", comprehension or scope_of(node))
    if holder.type == "as_pattern" and target.type == "as_pattern_target":
        return Binding(node, "other", scope_of(node))
    if holder.type in ("global_statement", "nonlocal_statement"):
        return None
    if holder.type == "delete_statement":
        return Binding(node, "other", scope_of(node))
    return None


def _parameter(node: Node, parent: Node) -> Binding | None:
    holder, value = parent, None
    if holder.type in ("default_parameter", "typed_default_parameter"):
        if not same(field(holder, "name"), node):
            return None
        value, holder = field(holder, "value"), holder.parent or holder
    elif holder.type in ("typed_parameter", "list_splat_pattern", "dictionary_splat_pattern"):
        if holder.type == "typed_parameter" and not same(first_named(holder), node):
            return None
        holder = holder.parent or holder
        if holder.type == "typed_parameter":
            holder = holder.parent or holder
    if holder.type not in _PARAMETERS or holder.parent is None:
        return None
    return Binding(node, "parameter", holder.parent, value=value)


def _assignment_scope(node: Node) -> Node:
    """The scope an assignment binds in, `global` statements included."""
    scope = scope_of(node)
    if scope.type == "function_definition":
        name = text(node)
        body = field(scope, "body")
        for child in body.named_children if body is not None else []:
            if child.type == "global_statement" and any(text(c) == name for c in child.named_children):
                top = scope
                while top.parent is not None:
                    top = top.parent
                return top
    return scope
