"""What the user asked for: whether an expression is a device that came from outside, an argument or a flag, and what a
function or a file does with it before it is replaced."""

from __future__ import annotations

import re

from tree_sitter import Node

from anydevice.rules.residence import residence
from anydevice.rules.site import Site
from anydevice.source.calls import Call
from anydevice.source.syntax import field, same, strip_parens, text

_WISH = re.compile(
    r"\b(?:args|opts?|config|cfg|flags|hparams|params|environ|settings)\b(?:\.|\[|\()[^\n]*(?:device|gpu|dev)",
    re.IGNORECASE,
)


def is_wish(site: Site, node: Node) -> bool:
    """Whether a device came from outside: a parameter, or what was read from the flags."""
    node = strip_parens(node)
    if node.type == "call" and site.module.qualname(Call(node).function) == "torch.device" and Call(node).positional:
        node = Call(node).positional[0].value
    if node.type == "identifier":
        bindings = site.module.names.lookup(node)
        return bool(bindings) and all(
            b.kind == "parameter" or (b.value is not None and _WISH.search(text(b.value)) is not None) for b in bindings
        )
    return _WISH.search(text(node)) is not None and node.type in ("attribute", "subscript")


def asked_elsewhere(value: Node) -> str | None:
    """`device = torch.device(args.device if torch.cuda.is_available() else "cpu")`."""
    found = re.search(
        r"\b((?:args|opts?|config|cfg|self\.args)\.device)\s+if\s+torch\.cuda\.is_available\(\)\s+else", text(value)
    )
    return found.group(1) if found is not None else None


def falls_back_on_cuda(value: Node, name: str) -> bool:
    """`name if torch.cuda.is_available() else "cpu"`."""
    return (
        re.search(
            rf"\b{re.escape(name)}\s+if\s+torch\.cuda\.is_available\(\)\s+else\s+(?:torch\.device\()?[\"']cpu",
            text(value),
        )
        is not None
    )


def is_asked(site: Site, function: Node | None, name: str, assignment: Node) -> bool:
    """Whether `name` held the user's choice, unread: a parameter of the function, or what was read from the flags."""
    where = residence(site.context)
    if not re.search(r"dev", name, re.IGNORECASE):
        return False
    if function is not None and name in where.parameters(function):
        body = field(function, "body") or function
        return not _is_used(site, name, body.start_byte, assignment.start_byte)
    target = field(assignment, "left")
    earlier = [
        b
        for b in site.module.names.bindings(name)
        if b.kind == "assignment"
        and b.node.start_byte < assignment.start_byte
        and target is not None
        and same(b.scope, site.module.scope(target))
        and b.value is not None
    ]
    value = earlier[-1].value if earlier else None
    if value is None or not _WISH.search(text(value)):
        return False
    return not _is_used(site, name, value.end_byte, assignment.start_byte)


def never_read(site: Site, function: Node) -> str | None:
    """A `device` parameter that its function never reads."""
    where = residence(site.context)
    asked = [n for n in where.parameters(function) if re.search(r"(?:\A|_)dev(?:ice)?\Z", n)]
    if len(asked) != 1:
        return None
    name = asked[0]
    body = field(function, "body")
    source = text(body) if body is not None else ""
    return name if re.search(rf"(?<![\w.]){name}\b(?!\s*=)|locals\(\)|\*\*kwargs", source) is None else None


def _is_used(site: Site, name: str, start: int, end: int) -> bool:
    return any(start <= leaf.start_byte < end for leaf in site.module.names.references(name))
