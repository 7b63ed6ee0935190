"""Imports that rewritten code needs beside torch."""

from __future__ import annotations

from tree_sitter import Node

from anydevice.rules.placement import Expression
from anydevice.rules.site import Context
from anydevice.source.syntax import ancestors, text


def nullcontext(context: Context, node: Node) -> Expression:
    """A context manager that does nothing, with the import of contextlib that it may need."""
    for binding in context.module.names.imports:
        if binding.target == "contextlib.nullcontext" and any(a.id == binding.scope.id for a in ancestors(node)):
            return Expression(f"{text(binding.node)}()")
    contextlib = imported(context, node, "contextlib")
    return Expression(f"{contextlib.text}.nullcontext()", contextlib.edits)


def imported(context: Context, node: Node, name: str) -> Expression:
    """What the module `name` of the standard library is called at `node`, with the import that it may need."""
    module = context.module
    for binding in module.names.imports:
        if binding.target == name and any(a.id == binding.scope.id for a in ancestors(node)):
            return Expression(text(binding.node))
    first = next(
        (
            child
            for child in module.root.named_children
            if child.type in ("import_statement", "import_from_statement") and module.starts_line(child)
        ),
        None,
    )
    if first is None or not module.names.is_free(name):
        return Expression(f'__import__("{name}")')
    return Expression(name, (module.insert(first.start_byte, f"import {name}\n"),))
