"""The shape of a file: functions and their callers, classes and their attributes, and what a name is bound to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from tree_sitter import Node

from anydevice.rules import tensor_words as words
from anydevice.rules.site import Context
from anydevice.source.calls import Argument, Call
from anydevice.source.names import Binding
from anydevice.source.syntax import ancestors, field, first_named, same, statement, text


class Program:
    """One file. Everything is looked up on demand and remembered."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.module = context.module
        self._module_classes: dict[int, bool] = {}
        self._after_move: dict[int, bool] = {}
        self._reaching: dict[int, list[Binding]] = {}
        self._uses: dict[str, tuple[Node, ...]] = {}

    # -- of the whole file ---------------------------------------------------------------------------------------

    @cached_property
    def has_default_device(self) -> bool:
        """Whether factories may make their tensors elsewhere than on the CPU."""
        return self._mentions(words.DEFAULTS)

    @cached_property
    def has_moves(self) -> bool:
        """Whether anything is moved by name."""
        return self._mentions((b".to(", b".cuda("))

    @cached_property
    def has_devices(self) -> bool:
        """Whether anything in the file can be on another device than the CPU."""
        return self._mentions(words.DEVICE_USES)

    @cached_property
    def others_move(self) -> bool:
        """Whether a library (or a function of the project) moves modules and batches out of sight."""
        imported = b" Trainer" in self.module.data and b"class Trainer" not in self.module.data
        return imported or self._mentions(words.MOVERS)

    @cached_property
    def batches_are_moved(self) -> bool:
        """Whether batches may come out of a loader on the device."""
        return self._mentions(words.BATCH_MOVERS)

    def _mentions(self, listed: tuple[bytes, ...]) -> bool:
        return any(word in self.module.data for word in listed)

    # -- modules and their lives ---------------------------------------------------------------------------------

    def is_module_class(self, class_: Node | None) -> bool:
        """Remembered form of `Context.is_module_class`."""
        if class_ is None:
            return False
        if class_.id not in self._module_classes:
            self._module_classes[class_.id] = self.context.is_module_class(class_)
        return self._module_classes[class_.id]

    def is_made_at_construction(self, node: Node) -> bool:
        """Whether `node` runs while a module is built, when all of it is still on the CPU."""
        return self.is_module_class(self.module.class_(node)) and not self.runs_after_move(self.module.function(node))

    def runs_after_move(self, function: Node | None) -> bool:
        """Whether a function is a method that runs once its nn.Module has been moved."""
        if function is None:
            return False
        if function.id not in self._after_move:
            self._after_move[function.id] = False
            self._after_move[function.id] = self._runs_after_move(function)
        return self._after_move[function.id]

    def _runs_after_move(self, function: Node) -> bool:
        class_, outer = self.module.class_(function), self.module.function(function)
        if outer is not None and (class_ is None or outer.start_byte > class_.start_byte):
            return self.runs_after_move(outer)
        if class_ is None or not self.is_module_class(class_):
            return False
        name = self.function_name(function)
        if words.CONSTRUCTION.match(name):
            return False
        owner = function.parent
        if owner is not None and owner.type == "decorated_definition" and words.STATIC.search(text(owner)[:200]):
            return False
        if name.startswith("forward"):
            return True
        callers = [
            self.module.function(c.node) for c in self.callers(function) if same(self.module.class_(c.node), class_)
        ]
        return not callers or any(c is None or self.runs_after_move(c) for c in callers)

    # -- functions and classes -----------------------------------------------------------------------------------

    def function_of(self, call: Call) -> Node | None:
        """The function or method of this file that a call runs."""
        function = call.function
        if function.type == "identifier":
            bindings = self.module.names.lookup(function)
            if len(bindings) == 1 and bindings[0].kind == "function":
                return bindings[0].value
            return None
        if function.type == "attribute" and call.method is not None:
            owner = call.receiver
            inside = self.module.class_(call.node) if owner is not None and text(owner) == "self" else None
            found = [
                b.value
                for b in self.module.names.bindings(call.method)
                if b.kind == "function"
                and b.value is not None
                and b.scope.type == "class_definition"
                and (inside is None or same(b.scope, inside))
            ]
            if len(found) == 1 and (inside is not None or call.method not in words.COMMON_METHODS):
                return found[0]
        return None

    def class_of(self, node: Node) -> Node | None:
        """The class of this file that `node` names."""
        if node.type != "identifier":
            return None
        bindings = self.module.names.lookup(node)
        return bindings[0].value if len(bindings) == 1 and bindings[0].kind == "class" else None

    def instance_of(self, node: Node, depth: int = 0) -> Node | None:
        """The class of this file whose instance `node` is: a name, `self.x`, or what a loop takes from a list."""
        values: list[Node | None] = []
        if depth > 4:
            return None
        if node.type == "identifier":
            values = [b.value or _iterated(b.node) for b in self.reaching(node)]
        elif node.type == "attribute" and (class_ := self.module.class_(node)) is not None:
            values = [v for _, v in self.attribute_values(class_, text(field(node, "attribute") or node))]
        elif node.type == "subscript":
            values = [field(node, "value")]
        if len(values) != 1 or values[0] is None:
            return None
        value = values[0]
        if value.type in ("identifier", "attribute", "subscript"):
            return self.instance_of(value, depth + 1)
        found: dict[int, Node] = {}
        for match in re.finditer(rb"\b[A-Z]\w*(?=\()", self.module.data[value.start_byte : value.end_byte]):
            leaf = self.module.leaf(value.start_byte + match.start(), value.start_byte + match.end())
            class_ = self.class_of(leaf) if leaf is not None else None
            if class_ is not None:
                found[class_.id] = class_
        if (
            not found
            and value.type == "call"
            and (iterated := Call(value).positional)
            and text(Call(value).function) in words.WRAPPERS
        ):
            return self.instance_of(iterated[0].value, depth + 1)
        return next(iter(found.values())) if len(found) == 1 else None

    def method_of(self, class_: Node, name: str) -> Node | None:
        """A method that a class of this file defines."""
        return next(
            (b.value for b in self.module.names.bindings(name) if b.kind == "function" and same(b.scope, class_)), None
        )

    def returns(self, function: Node) -> Iterator[Node]:
        """The expressions that a function returns."""
        data = self.module.data
        for match in re.finditer(rb"\breturn\b", data[function.start_byte : function.end_byte]):
            leaf = self.module.leaf(function.start_byte + match.start(), function.start_byte + match.end())
            owner = leaf.parent if leaf is not None else None
            if owner is not None and owner.type == "return_statement" and same(self.module.function(owner), function):
                value = first_named(owner)
                if value is not None:
                    yield value

    def parameters(self, function: Node) -> list[str]:
        """The names of the positional parameters, `self` left out for methods."""
        listed = field(function, "parameters")
        names = []
        for child in listed.named_children if listed is not None else []:
            if child.type == "identifier":
                names.append(text(child))
            elif child.type in ("default_parameter", "typed_default_parameter"):
                names.append(text(field(child, "name") or child))
            elif child.type == "typed_parameter":
                names.append(text(first_named(child) or child))
        owner = function.parent
        is_static = owner is not None and owner.type == "decorated_definition" and "staticmethod" in text(owner)[:200]
        return names[1:] if names and names[0] in ("self", "cls") and not is_static else names

    def matched(self, function: Node, call: Call) -> Iterator[tuple[str, Argument]]:
        """(parameter, argument) of a call of a function of this file."""
        names = self.parameters(function)
        yield from zip(names, call.positional, strict=False)
        yield from ((a.name, a) for a in call.arguments if a.name in names)

    def callers(self, function: Node) -> Iterator[Call]:
        """The calls of a function, of a method (whatever it is called on), or of the class of an `__init__`."""
        name_node = field(function, "name")
        if name_node is None:
            return
        name = text(name_node)
        if name in ("forward", "__call__"):
            yield from self._calls_of_instances(function)
            return
        if name == "__init__":
            class_ = self.module.class_(function)
            if class_ is None:
                return
            name = text(field(class_, "name") or name_node)
        for leaf in self.module.names.occurrences(name):
            reference = leaf.parent if leaf.parent is not None and leaf.parent.type == "attribute" else leaf
            call = reference.parent
            if call is not None and call.type == "call" and same(field(call, "function"), reference):
                yield Call(call)

    def _calls_of_instances(self, forward: Node) -> Iterator[Call]:
        """`net(...)` for every `net = Net(...)` of this file."""
        class_ = self.module.class_(forward)
        name = field(class_, "name") if class_ is not None else None
        if class_ is None or name is None:
            return
        kept: set[str] = set()
        for leaf in self.module.names.occurrences(text(name)):
            holder = leaf.parent
            while holder is not None and holder.type in ("call", "attribute", "argument_list"):
                holder = holder.parent
            target = field(holder, "left") if holder is not None and holder.type == "assignment" else None
            if target is not None and target.type in ("identifier", "attribute"):
                kept.add(text(target))
        for called in sorted(kept):
            for leaf in self.module.names.occurrences(called.rsplit(".", 1)[-1]):
                reference = leaf.parent if "." in called and leaf.parent is not None else leaf
                call = reference.parent
                if (
                    call is not None
                    and call.type == "call"
                    and same(field(call, "function"), reference)
                    and text(reference) == called
                ):
                    yield Call(call)

    def passed(self, function: Node, parameter: str) -> Iterator[Argument]:
        """What this file passes for a parameter."""
        for call in self.callers(function):
            yield from (argument for name, argument in self.matched(function, call) if name == parameter)

    def same_function(self, a: Node, b: Node) -> bool:
        """Whether two nodes stand in one function, or both in none."""
        first, second = self.module.function(a), self.module.function(b)
        return same(first, second) or (first is None and second is None)

    def function_name(self, function: Node) -> str:
        """The name of a function."""
        name = field(function, "name")
        return text(name) if name is not None else ""

    # -- names ---------------------------------------------------------------------------------------------------

    def reaching(self, use: Node) -> list[Binding]:
        """The bindings whose value `use` may see, nearest first: back to one that always happens."""
        if use.id not in self._reaching:
            self._reaching[use.id] = self._find_reaching(use)
        return self._reaching[use.id]

    def _find_reaching(self, use: Node) -> list[Binding]:
        bindings = [b for b in self.module.names.lookup(use) if not _is_update(b)]
        if len(bindings) <= 1:
            return bindings
        scope = bindings[0].scope
        around = {a.id for a in ancestors(use)}
        if scope.id not in around or (self.module.scope(use).id != scope.id and scope.type == "module"):
            return bindings
        owner = statement(use)
        before = [b for b in bindings if b.kind == "parameter" or b.node.start_byte < use.start_byte]
        found = []
        for binding in sorted(before, key=lambda b: -b.node.start_byte):
            if binding.kind == "parameter":
                found.append(binding)
                break
            made = statement(binding.node)
            if same(made, owner) and made.type not in (
                "for_statement",
                "with_statement",
                "while_statement",
                "if_statement",
            ):
                continue
            found.append(binding)
            holder = made if made.type in ("for_statement", "with_statement") else made.parent
            if holder is None or holder.id in around or made.type == "with_statement":
                break
        return found or bindings

    def uses(self, name: str) -> tuple[Node, ...]:
        """Every use of a variable, `name += ...` included, in source order."""
        if name not in self._uses:
            bound = {b.node.id for b in self.module.names.bindings(name) if not _is_update(b)}
            references = {node.id for node in self.module.names.references(name)}
            updates = {b.node.id for b in self.module.names.bindings(name) if b.node.id not in bound}
            self._uses[name] = tuple(
                leaf for leaf in self.module.names.occurrences(name) if leaf.id in references or leaf.id in updates
            )
        return self._uses[name]

    def bound_in(self, target: Node) -> Iterator[Binding]:
        """The names that the target of a loop or of an assignment binds."""
        for word in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", text(target))):
            for binding in self.module.names.bindings(word):
                if target.start_byte <= binding.node.start_byte < target.end_byte:
                    yield binding

    # -- attributes ----------------------------------------------------------------------------------------------

    def is_container(self, node: Node) -> bool:
        """Whether a name or `self.x` holds a list, tuple or dict (or what a loop takes from a loader), not a tensor."""
        values: list[Node | None] = []
        if node.type == "identifier":
            values = [b.value for b in self.reaching(node)]
        elif node.type == "attribute" and (class_ := self.module.class_(node)) is not None:
            values = [v for _, v in self.attribute_values(class_, text(field(node, "attribute") or node))]
        else:
            values = [node]
        return any(value is None or value.type in words.CONTAINER_NODES for value in values)

    def attribute_values(self, class_: Node, name: str) -> Iterator[tuple[Node, Node | None]]:
        """(the `self.name` that is assigned to, the value or None) in one class."""
        for use in self.attribute_uses(class_, name):
            holder = use.parent
            if holder is not None and holder.type == "assignment" and same(field(holder, "left"), use):
                if field(holder, "right") is not None:
                    yield use, field(holder, "right")
            elif holder is not None and holder.type in ("pattern_list", "tuple_pattern"):
                yield use, None

    def attribute_uses(self, class_: Node, name: str) -> Iterator[Node]:
        """Every `self.name` in a class."""
        for leaf in self.module.names.occurrences(name):
            attribute = leaf.parent
            if (
                class_.start_byte <= leaf.start_byte < class_.end_byte
                and attribute is not None
                and attribute.type == "attribute"
                and same(field(attribute, "attribute"), leaf)
                and text(owner := field(attribute, "object") or attribute) == "self"
                and owner.type == "identifier"
            ):
                yield attribute

    def registered(self, class_: Node, name: str) -> bool:
        """Whether a class registers a buffer or parameter of this name."""
        return (
            re.search(rf"register_(?:buffer|parameter)\(\s*(?:name\s*=\s*)?[\"']{re.escape(name)}[\"']", text(class_))
            is not None
        )


def _is_update(binding: Binding) -> bool:
    holder = binding.node.parent
    return holder is not None and holder.type == "augmented_assignment"


def _iterated(target: Node) -> Node | None:
    """What the loop runs over that binds `target`."""
    holder = target.parent
    while holder is not None and holder.type in ("pattern_list", "tuple_pattern", "list_pattern"):
        holder = holder.parent
    return field(holder, "right") if holder is not None and holder.type in ("for_statement", "for_in_clause") else None
