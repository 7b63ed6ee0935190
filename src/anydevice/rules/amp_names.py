"""Names of mixed precision that have to change together: what an import binds, and what is autocast or nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tree_sitter import Node

from anydevice.finding import Edit, Safety
from anydevice.rules.amp import Meaning, call_of, is_type, meaning, named, offered, plan
from anydevice.rules.site import Context
from anydevice.source.calls import Call
from anydevice.source.names import Binding
from anydevice.source.syntax import ancestors, field, same, strip_parens, text


def import_plan(context: Context, meant: Meaning) -> tuple[Edit, ...] | None:
    """The edits that turn an import of torch.cuda.amp into one of torch.amp, with all uses of what it imports.

    None where some use cannot be mended, so that the import has to stay.
    """
    if meant.binding is None:
        return None
    statement = next((a for a in ancestors(meant.binding.node) if a.type.startswith("import_")), None)
    path = _path(statement, meant.binding) if statement is not None else None
    if statement is None or path is None:
        return None
    edits = [context.module.replace(*path)]
    for binding in context.module.names.imports:
        if not any(same(a, statement) for a in ancestors(binding.node)):
            continue
        mended = _uses(context, binding)
        if mended is None:
            return None
        edits += mended
    return tuple(dict.fromkeys(edits))


def _path(statement: Node, binding: Binding) -> tuple[Node, str] | None:
    """The dotted path in an import statement that is to change, and what it becomes."""
    if statement.type == "import_from_statement":
        module = field(statement, "module_name")
        if module is None:
            return None
        path = text(module)
        if path.startswith("torch.cuda.amp"):
            return module, path.replace("torch.cuda.amp", "torch.amp")
        alone = len(statement.children_by_field_name("name")) == 1
        return (module, "torch") if path == "torch.cuda" and alone and binding.target == "torch.cuda.amp" else None
    holder = binding.node.parent
    name = field(holder, "name") if holder is not None and holder.type == "aliased_import" else None
    return (name, text(name).replace("torch.cuda.amp", "torch.amp")) if name is not None else None


def _uses(context: Context, binding: Binding) -> list[Edit] | None:
    names, name = context.module.names, text(binding.node)
    if len(names.bindings(name)) != 1 or _is_exported(context, name):
        return None
    edits: list[Edit] = []
    for node in names.references(name):
        reference = node
        while (
            reference.parent is not None
            and reference.parent.type == "attribute"
            and same(field(reference.parent, "object"), reference)
        ):
            reference = reference.parent
        meant = meaning(context, reference)
        if meant is None or not offered(context, meant.kind):
            return None
        mended = plan(context, reference, meant, renamed=True)
        if mended is None or mended.safety is Safety.UNSAFE:
            return None
        edits += mended.edits
    known = named(binding.target or "")
    if known is not None and not offered(context, known[0]):
        return None
    return edits


def _is_exported(context: Context, name: str) -> bool:
    """Whether other files may use the name through this one."""
    data = context.module.data
    listed = b"__all__" in data and re.search(rb"""["']%s["']""" % re.escape(name.encode()), data) is not None
    return listed or context.path.endswith("__init__.py")


@dataclass(frozen=True)
class Alternative:
    """`scope = autocast if wanted else nullcontext`: the name, its calls, and the whole conditional (if it is one)."""

    name: str
    calls: tuple[Call, ...]
    conditional: Node | None


def alternative(context: Context, reference: Node) -> Alternative | None:
    """The name that an uncalled `reference` is assigned to, and all its calls; None where other uses can be seen."""
    value = reference
    parent = value.parent
    conditional = None
    while parent is not None and parent.type in ("conditional_expression", "parenthesized_expression"):
        if parent.type == "conditional_expression":
            if conditional is not None:
                return None
            conditional = parent
        value, parent = parent, parent.parent
    if parent is None or parent.type != "assignment" or not same(field(parent, "right"), value):
        return None
    left = field(parent, "left")
    if left is None or left.type != "identifier":
        return None
    calls = []
    for use in context.module.names.references(text(left)):
        call = call_of(use)
        if call is None:
            return None
        calls.append(call)
    return Alternative(text(left), tuple(calls), conditional)


def is_alternative_autocast(context: Context, function: Node) -> bool:
    """Whether a called name was chosen between torch.autocast and something else: its device is amp's to write."""
    if function.type != "identifier":
        return False
    bindings = context.module.names.lookup(function)
    value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "assignment" else None
    if value is None or value.type != "conditional_expression":
        return False
    branches = [child for child in value.named_children if child.type != "comment"]
    return any(
        (meant := meaning(context, strip_parens(branch))) is not None and meant.kind == "autocast"
        for branch in (branches[0], branches[-1])
    )


def is_binding(context: Context, leaf: Node) -> bool:
    """Whether an identifier is where its name is bound, not where it is used."""
    return any(same(binding.node, leaf) for binding in context.module.names.bindings(text(leaf)))


def other_names(context: Context, reference: Node, anchors: tuple[str, ...]) -> list[Node]:
    """The uses of another name that `reference` is assigned to, which no anchor meets."""
    parent = reference.parent
    left = field(parent, "left") if parent is not None and parent.type == "assignment" else None
    if left is None or left.type != "identifier" or text(left) in anchors:
        return []
    return list(context.module.names.references(text(left)))


def is_harmless(context: Context, reference: Node) -> bool:
    """A name that is only handed on under another name, all uses of which are calls that are found themselves."""
    parent = reference.parent
    if parent is None or parent.type != "assignment" or not same(field(parent, "right"), reference):
        return False
    left = field(parent, "left")
    if left is None or left.type != "identifier":
        return False
    for use in context.module.names.references(text(left)):
        if meaning(context, use) is None or (call_of(use) is None and not is_type(use)):
            return False
    return True
