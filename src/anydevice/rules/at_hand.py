"""The device that the code around a place already uses: `device`, `self.device`, `args.device`."""

from __future__ import annotations

import re

from tree_sitter import Node

from anydevice.rules.site import Context
from anydevice.source.syntax import ancestors, same, statement, text

_MOVE = re.compile(rb"(?:\.to\(\s*(?:device\s*=\s*)?|\bdevice=)((?:\w+\.)?\w*(?:device|DEVICE|dev)\w*)\s*[,)]")


def device_at(context: Context, node: Node) -> str | None:
    """An expression for the device that moves of this file use, if it can be written at `node`."""
    existing = context.placement.device(node)
    if not existing.edits:
        return existing.expr
    names = dict.fromkeys(match.group(1).decode() for match in _MOVE.finditer(context.module.data))
    return next((name for name in names if _reaches(context, name, node)), None)


def _reaches(context: Context, name: str, node: Node) -> bool:
    module = context.module
    root, _, attribute = name.partition(".")
    if root == "self":
        class_, function = module.class_(node), module.function(node)
        if class_ is None or function is None:
            return False
        own = f"self.{attribute} ="
        before = module.data[function.start_byte : node.start_byte].decode("utf-8", "replace")
        return own in before or (own in text(class_) and own not in text(function))
    around = {a.id for a in ancestors(node)}
    bindings = [b for b in module.names.bindings(root) if b.scope.id in around]
    if not bindings:
        return False
    scope = max((b.scope for b in bindings), key=lambda s: s.start_byte)
    for binding in (b for b in bindings if same(b.scope, scope)):
        if binding.kind == "parameter" and attribute:  # another function's `args` may have no such attribute
            return name in text(scope)
        if binding.kind in ("parameter", "import"):
            return True
        if scope.type == "module" and not module.at_import(node):
            return not module.may_run_before(node, statement(binding.node))
        if binding.kind == "assignment" and binding.node.end_byte <= node.start_byte:
            holder = next(a for a in ancestors(binding.node) if a.type in ("block", "module"))
            return holder.id in around
    return False
