"""Where values live: whether an expression is a tensor made on the CPU, one that was moved, a module, or unknown.

A claim is only made from what the file itself says; whatever is not understood is `None`. What names hold is found in
`held`, what calls give back in `made`; inside a module its parameters, buffers and layers count as moved.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tree_sitter import Node

from anydevice.rules import tensor_words as words
from anydevice.rules.held import of_name
from anydevice.rules.home import Env, Home, Homes, either, together
from anydevice.rules.made import is_parameter, of_call
from anydevice.rules.moves import module_moves
from anydevice.rules.site import Context
from anydevice.source.calls import Call
from anydevice.source.syntax import field, first_named, strip_parens, text

_DEPTH = 14
_OF_ONE = words.listed("parenthesized_expression await unary_operator not_operator list_splat keyword_argument")
_OF_SEVERAL = words.listed("binary_operator comparison_operator boolean_operator tuple list expression_list set")


class Residence(Homes):
    """Answers for one file. Everything is looked up on demand and remembered."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._memo: dict[tuple[int, frozenset[tuple[tuple[int, str], Home | None]]], Home | None] = {}
        self.remembered: dict[int, Any] = {}  # what those who ask have found out, by node

    def of(self, node: Node | None, env: Env | None = None, depth: int = 0) -> Home | None:
        """The home of the value of `node`; None when unknown. `env` says where the parameters of functions live."""
        if node is None or depth > _DEPTH:
            return None
        env = env or {}
        key = (node.id, frozenset(env.items()))
        if key not in self._memo:
            self._memo[key] = None  # what a cycle sees
            self._memo[key] = self._of(node, env, depth + 1)
        return self._memo[key]

    def _of(self, node: Node, env: Env, depth: int) -> Home | None:
        kind = node.type
        if kind in _OF_ONE:
            inner = field(node, "argument") or field(node, "value") or first_named(node)
            return self.of(inner, env, depth)
        if kind == "identifier":
            return of_name(self, node, env, depth)
        if kind == "attribute":
            return self._attribute(node, env, depth)
        if kind == "call":
            return of_call(self, Call(node), env, depth)
        if kind == "subscript":
            return self._subscript(node, env, depth)
        if kind in _OF_SEVERAL:
            return together(self.of(child, env, depth) for child in node.named_children)
        if kind == "dictionary":
            return together(self.of(field(p, "value"), env, depth) for p in node.named_children if p.type == "pair")
        if kind in ("list_comprehension", "generator_expression"):
            return self.of(field(node, "body"), env, depth)
        if kind == "conditional_expression":
            parts = [child for child in node.named_children if child.type != "comment"]
            return either([self.of(parts[0], env, depth), self.of(parts[-1], env, depth)]) if len(parts) == 3 else None
        if kind in ("integer", "float", "true", "false", "none", "string", "lambda"):
            return Home.OTHER
        return None

    def _subscript(self, node: Node, env: Env, depth: int) -> Home | None:
        value = field(node, "value")
        home = self.of(value, env, depth)
        if value is None or home not in (Home.CPU, Home.SCALAR):
            return home
        if self.takes_one(node) and not self.is_container(value):
            return Home.SCALAR  # one of a vector: 0-dim
        return Home.CPU  # what can be indexed has dimensions

    def takes_one(self, subscript: Node) -> bool:
        """Whether a subscript takes one element by its number: `x[0]`, `x[-1]`, `x[i]` in a loop."""
        indices = subscript.children_by_field_name("subscript")
        if len(indices) != 1:
            return False
        index = indices[0]
        if index.type == "identifier":
            home = self.of(index)
            return home is Home.OTHER or (home is None and words.INDEX_NAME.match(text(index)) is not None)
        return index.type in ("integer", "unary_operator")

    def _attribute(self, node: Node, env: Env, depth: int) -> Home | None:
        attribute, owner = field(node, "attribute"), field(node, "object")
        if attribute is None or owner is None:
            return None
        name = text(attribute)
        if name in words.NO_TENSOR_ATTRIBUTES:
            return Home.OTHER
        if name in words.SAME_ATTRIBUTES:
            return self.of(owner, env, depth)
        if owner.type == "identifier" and text(owner) == "self":
            return self.of_attribute(node, name, depth)
        return None

    def of_attribute(self, use: Node, name: str, depth: int = 0) -> Home | None:
        """The home of `self.name` as seen at `use`."""
        class_ = self.module.class_(use)
        if class_ is None:
            return None
        in_module = self.is_module_class(class_)
        if in_module and self.registered(class_, name):
            return Home.DEVICE
        values = [value for _, value in self.attribute_values(class_, name)]
        if not values:
            return None
        homes = [self.of(value, None, depth + 1) if value is not None else None for value in values]
        home = either(homes)
        if in_module and home in (Home.MODULE, Home.MOVED_MODULE):
            return Home.MOVED_MODULE
        if in_module and any(
            value is not None and is_parameter(self.module.qualname(_called(value)) or "") for value in values
        ):
            return Home.DEVICE
        if home is Home.MODULE and module_moves(self, use, f"self.{name}"):
            return Home.MOVED_MODULE
        return home


def _called(value: Node) -> Node | None:
    value = strip_parens(value)
    return Call(value).function if value.type == "call" else None


@lru_cache(maxsize=2)
def residence(context: Context) -> Residence:
    """The (remembered) answers for one file."""
    return Residence(context)
