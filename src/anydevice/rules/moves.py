"""Devices that are asked for, and moves: where `device=` puts a tensor, where `.to(...)` sends one, and which calls
move a module."""

from __future__ import annotations

import re

from tree_sitter import Node

from anydevice.rules import tensor_words as words
from anydevice.rules.home import Env, Home, Homes
from anydevice.source.calls import Call
from anydevice.source.syntax import field, same, string_value, text


def given(where: Homes, device: Node, env: Env | None = None, depth: int = 0) -> Home:
    """The home that a `device=` argument asks for."""
    env = env or {}
    literal = where.module.names.constant(device)
    if literal is None and device.type == "identifier":
        bindings = where.module.names.lookup(device)
        if len(bindings) == 1 and bindings[0].kind == "assignment" and bindings[0].value is not None:
            device = bindings[0].value
    if literal is None and device.type == "call" and where.module.qualname(Call(device).function) == "torch.device":
        argument = Call(device).argument(0, "type", "device")
        literal = string_value(argument.value) if argument is not None else None
    if literal is not None:
        return Home.CPU if literal.startswith("cpu") else Home.PLACED if literal.startswith("meta") else Home.DEVICE
    if device.type == "none":
        return Home.CPU
    if device.type == "attribute" and text(device).startswith("self.") and text(device).count(".") == 1:
        return _kept_device(where, device)
    if device.type == "attribute" and text(device).endswith(".device"):
        return _beside(where, field(device, "object"), env, depth)
    if device.type == "identifier":
        for binding in where.module.names.lookup(device):
            if binding.kind == "parameter" and binding.value is not None and binding.value.type != "none":
                return Home.PLACED  # `device="cpu"`: the caller decides
            if binding.value is not None and text(binding.value).endswith(".device"):
                return _beside(where, field(binding.value, "object"), env, depth)
    return Home.DEVICE


def _kept_device(where: Homes, device: Node) -> Home:
    """The home that `self.device` stands for."""
    class_ = where.module.class_(device)
    values = [v for _, v in where.attribute_values(class_, text(device)[5:])] if class_ is not None else []
    on_cpu = [
        v is not None and re.fullmatch(r"(?:torch\.device\(\s*)?[\"']cpu[\"']\)?", text(v)) is not None for v in values
    ]
    if values and all(on_cpu):
        return Home.CPU
    return Home.PLACED if any(on_cpu) else Home.DEVICE


def _beside(where: Homes, node: Node | None, env: Env, depth: int) -> Home:
    """The home of what is made with `device=node.device`."""
    home = where.of(node, env, depth)
    if home in (Home.CPU, Home.DEVICE):
        return home
    if home is Home.MOVED_MODULE or (node is not None and text(node) == "self"):
        return Home.DEVICE
    return Home.PLACED


def move_target(where: Homes, call: Call, env: Env | None = None, depth: int = 0) -> Home | None:
    """Where a `.to(...)`, `.cuda()`, `.cpu()`, `.type_as(...)` sends its receiver; None when it is no move."""
    method = call.method
    if method in ("cuda", "xpu", "npu", "mps"):
        return Home.DEVICE
    if method == "cpu":
        return Home.CPU
    if method == "type":
        first = call.positional[0].value if call.positional else None
        return (
            Home.PLACED if first is not None and not words.DTYPE.match(text(first)) and first.type != "string" else None
        )
    if method in ("type_as", "to") and call.arguments:
        argument = call.argument(0, "device", "other", "tensor")
        if argument is None:
            return None
        value = argument.value
        if method == "to" and argument.name is None and words.DTYPE.match(text(value)):
            return given(where, call.positional[1].value, env, depth) if len(call.positional) > 1 else None
        home = where.of(value, env, depth)
        if home in (Home.CPU, Home.DEVICE, Home.PLACED):
            return home
        return Home.PLACED if method == "type_as" else given(where, value, env, depth)
    return None


def module_moves(where: Homes, use: Node, name: str) -> list[Call]:
    """The calls that move the module called `name`, those before `use` where they share a function."""
    return [
        call
        for call in moves_of(where, name, use)
        if call.node.start_byte < use.start_byte or not where.same_function(call.node, use)
    ]


def moves_of(where: Homes, name: str, use: Node) -> list[Call]:
    """The `name.to(device)` and `name.cuda()` calls in the scope of `use`, in source order."""
    last = name.rsplit(".", 1)[-1]
    class_ = where.module.class_(use) if name.startswith("self.") else None
    found = []
    for leaf in where.module.names.occurrences(last):
        if class_ is not None and not class_.start_byte <= leaf.start_byte < class_.end_byte:
            continue
        reference = leaf
        if "." in name:
            if leaf.parent is None or text(leaf.parent) != name:
                continue
            reference = leaf.parent
        call = moved_by(reference)
        if call is not None and move_target(where, call) in (Home.DEVICE, Home.PLACED):
            found.append(call)
    return found


def moved_by(reference: Node) -> Call | None:
    """The `.to(...)`/`.cuda()` call at the end of `reference.train().float().to(...)`, if there is one."""
    node = reference
    while True:
        attribute = node.parent
        if attribute is None or attribute.type != "attribute" or not same(field(attribute, "object"), node):
            return None
        outer = attribute.parent
        if outer is None or outer.type != "call" or not same(field(outer, "function"), attribute):
            return None
        call = Call(outer)
        if call.method in ("to", "cuda", "xpu", "npu", "to_empty"):
            return call
        if call.method not in words.MODULE_CHAIN:
            return None
        node = outer
