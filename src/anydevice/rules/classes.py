"""The nn.Module classes of a file, and the attributes that their construction gives them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tree_sitter import Node

from anydevice.rules.residence import Residence, residence
from anydevice.rules.site import Context
from anydevice.source.syntax import field, same, text

_CLASS = re.compile(rb"(?m)^[ \t]*class[ \t]+(\w+)")
_ATTRIBUTE = re.compile(rb"\bself\.(\w+)[ \t]*(?::[^=\n]+)?=(?!=)")


@dataclass(frozen=True)
class Attribute:
    """`self.name = value` in a method that runs before its module is moved. `target` is the `self.name`."""

    class_: Node
    name: str
    target: Node
    value: Node
    statement: Node


@lru_cache(maxsize=2)
def module_classes(context: Context) -> tuple[Node, ...]:
    """The nn.Module classes of a file."""
    module, found = context.module, []
    for match in _CLASS.finditer(module.data):
        leaf = module.leaf(match.start(1), match.end(1))
        class_ = leaf.parent if leaf is not None else None
        if class_ is not None and class_.type == "class_definition" and residence(context).is_module_class(class_):
            found.append(class_)
    return tuple(found)


@lru_cache(maxsize=2)
def attributes(context: Context) -> tuple[Attribute, ...]:
    """The attributes of the module classes of a file, as their construction sets them."""
    return tuple(a for class_ in module_classes(context) for a in _attributes(residence(context), class_))


def _attributes(where: Residence, class_: Node) -> Iterator[Attribute]:
    module = where.module
    for match in _ATTRIBUTE.finditer(module.data, class_.start_byte, class_.end_byte):
        leaf = module.leaf(match.start(1), match.end(1))
        target = leaf.parent if leaf is not None else None
        assignment = target.parent if target is not None else None
        if (
            target is None
            or assignment is None
            or assignment.type != "assignment"
            or not same(field(assignment, "left"), target)
            or not same(module.class_(target), class_)
        ):
            continue
        value, statement = field(assignment, "right"), assignment.parent
        function = module.function(target)
        if value is None or statement is None or statement.type != "expression_statement" or function is None:
            continue
        if not where.runs_after_move(function):
            yield Attribute(class_, text(leaf) if leaf is not None else "", target, value, statement)


def used_later(where: Residence, attribute: Attribute) -> list[Node]:
    """The uses of an attribute in the methods that run once the module has been moved."""
    return [
        use
        for use in where.attribute_uses(attribute.class_, attribute.name)
        if where.runs_after_move(where.module.function(use))
    ]


def moves_itself(class_: Node) -> bool:
    """Whether a class takes the moving of its tensors into its own hands."""
    return re.search(r"def (?:_apply|to|cuda)\(", text(class_)) is not None
