"""What the names of a file hold, and what its functions give back. Inside the methods of an nn.Module that run after
its construction, its inputs count as moved."""

from __future__ import annotations

import re

from tree_sitter import Node

from anydevice.rules import tensor_words as words
from anydevice.rules.home import Env, Home, Homes, either
from anydevice.rules.moves import module_moves
from anydevice.source.calls import Call
from anydevice.source.names import Binding
from anydevice.source.syntax import field, text


def of_name(where: Homes, node: Node, env: Env, depth: int) -> Home | None:
    """The home of what a name holds where it is used."""
    name = text(node)
    bindings = where.reaching(node)
    if not bindings:
        return None
    homes = [of_binding(where, binding, env, depth) for binding in bindings]
    home = either(homes)
    if home is Home.MODULE and module_moves(where, node, name):
        return Home.MOVED_MODULE
    return home


def of_binding(where: Homes, binding: Binding, env: Env | None = None, depth: int = 0) -> Home | None:
    """The home of the value that a binding gives to its name."""
    env = env or {}
    if binding.kind == "parameter":
        return _parameter(where, binding, env, depth)
    if binding.kind in ("import", "function", "class"):
        return None
    if binding.value is not None:
        return where.of(binding.value, env, depth)
    return _pattern(where, binding.node, env, depth)


def _pattern(where: Homes, node: Node, env: Env, depth: int) -> Home | None:
    """A name bound among others: `a, b = ...`, `for i, (x, y) in enumerate(loader)`."""
    path: list[int] = []
    child, holder = node, node.parent
    while holder is not None and holder.type in (
        "pattern_list",
        "tuple_pattern",
        "list_pattern",
        "parenthesized_expression",
    ):
        path.insert(0, [c.id for c in holder.named_children].index(child.id))
        child, holder = holder, holder.parent
    if holder is None:
        return None
    if holder.type == "assignment":
        return _taken(where, field(holder, "right"), path, env, depth)
    if holder.type in ("for_statement", "for_in_clause"):
        return element(where, field(holder, "right"), path, env, depth)
    return None


def _taken(where: Homes, value: Node | None, path: list[int], env: Env, depth: int) -> Home | None:
    while value is not None and path and value.type in ("expression_list", "tuple", "list"):
        value = value.named_child(path[0]) if path[0] < value.named_child_count else None
        path = path[1:]
    if value is not None and path and value.type == "call":
        function = where.function_of(Call(value))
        if function is not None:
            return _returned_at(where, function, Call(value), path[0], env, depth)
        if where.of(value, env, depth) in (Home.MODULE, Home.MOVED_MODULE):
            return None
    return where.of(value, env, depth)


def element(where: Homes, iterable: Node | None, path: list[int], env: Env, depth: int) -> Home | None:
    """The home of what a loop takes out of `iterable`."""
    if iterable is None:
        return None
    if iterable.type == "call":
        call = Call(iterable)
        name = text(call.function)
        if name == "range":
            return Home.OTHER
        if name == "enumerate" and call.positional and path:
            return Home.OTHER if path[0] == 0 else element(where, call.positional[0].value, path[1:], env, depth)
        if name == "zip" and path and path[0] < len(call.positional):
            return element(where, call.positional[path[0]].value, path[1:], env, depth)
        if name.rsplit(".", 1)[-1] in words.WRAPPERS and call.positional:
            return element(where, call.positional[0].value, path, env, depth)
    home = where.of(iterable, env, depth)
    if home is Home.LOADER or (home is None and words.LOADER.search(text(iterable)) and not where.batches_are_moved):
        return Home.CPU
    return home if home in (Home.CPU, Home.DEVICE, Home.PLACED, Home.MODULE, Home.MOVED_MODULE) else None


def _parameter(where: Homes, binding: Binding, env: Env, depth: int) -> Home | None:
    name = text(binding.node)
    key = (binding.scope.id, name)
    if key in env:
        return env[key]
    if key in where.active or binding.scope.type != "function_definition":
        return None
    annotation = field(binding.node.parent, "type") if binding.node.parent is not None else None
    if annotation is not None and words.PLAIN_TYPE.search(text(annotation)) and "Tensor" not in text(annotation):
        return Home.OTHER
    where.active.add(key)
    try:
        if where.runs_after_move(binding.scope):
            assumed = _input(where, binding, name)
            if assumed is not None or where.function_name(binding.scope) != "forward":
                return assumed
        homes = [where.of(a.value, None, depth + 2) for a in where.passed(binding.scope, name)]
        if Home.DEVICE in homes:
            return Home.DEVICE
        if Home.PLACED in homes:
            return Home.PLACED
        return homes[0] if homes and len(set(homes)) == 1 else None
    finally:
        where.active.discard(key)


def _input(where: Homes, binding: Binding, name: str) -> Home | None:
    """An argument of a module's method: a tensor beside the module, unless it looks like a plain value."""
    function = binding.scope
    if words.PLAIN_PARAMETER.match(name):
        return None
    if binding.value is not None and binding.value.type != "none":
        return None
    body = text(function)
    looks = re.search(
        rf"\b{name}(?:\.(?:size|shape|view|dim|device|new\w*|unsqueeze|squeeze|permute|transpose|reshape|contiguous|expand"
        rf"|type_as|float|detach|mean|sum|flatten|data|repeat|T|chunk|split|masked_fill)\b|\[[^\]]*[:,])"
        rf"|\b(?:self\.\w+|F\.\w+|torch\.\w+)\(\s*{name}\b",
        body,
    )
    if looks:
        return Home.DEVICE
    if where.function_name(function) != "forward":
        return None
    if re.search(
        rf"\b(?:if|elif|while|not)\s+{name}\b|\brange\(.*\b{name}\b|\*\*?{name}\b|\b{name}\.\w|\bin {name}\b", body
    ):
        return None
    return Home.DEVICE if re.search(rf"[-+*/@]\s*{name}\b|\b{name}\s*[-+*/@]", body) else None


def returned(where: Homes, function: Node, call: Call, env: Env, depth: int) -> Home | None:
    """The home of what `function` returns for the arguments of `call`."""
    inner = _frame(where, function, call, env, depth)
    values = [where.of(value, inner, depth + 1) for value in where.returns(function)]
    return either(values)


def _returned_at(where: Homes, function: Node, call: Call, index: int, env: Env, depth: int) -> Home | None:
    """The home of one of several values that a function of this file returns."""
    inner = _frame(where, function, call, env, depth)
    homes = []
    for value in where.returns(function):
        parts = value.named_children if value.type in ("expression_list", "tuple") else []
        homes.append(where.of(parts[index], inner, depth + 1) if index < len(parts) else None)
    return either(homes)


def _frame(where: Homes, function: Node, call: Call, env: Env, depth: int) -> Env:
    """Where the parameters of `function` live during `call`."""
    inner: Env = dict(env)
    for parameter, argument in where.matched(function, call):
        inner[function.id, parameter] = where.of(argument.value, env, depth)
    return inner
