"""Mixed precision: what the names of `torch.amp` and `torch.cuda.amp` mean, and how a use is written for any device.

Autocast to float16 stays off on the CPU, where `torch.cuda.amp.autocast` always was off: the CPU's own default is
bfloat16, which NumPy cannot read, and its float16 lacks operators (LSTM). Loss scaling stays CUDA's: `GradScaler`
needs float64 on the device, which MPS (pytorch#150255, since 2.8 not any more) and Intel Arc (pytorch#147731) lack.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tree_sitter import Node

from anydevice.finding import Edit, Safety
from anydevice.rules.guards import needs_accelerator
from anydevice.rules.literal import device_literal
from anydevice.rules.placement import Device, Expression
from anydevice.rules.site import Context
from anydevice.source.calls import Argument, Call
from anydevice.source.names import Binding
from anydevice.source.syntax import ancestors, field, same, strip_parens, text

_CUDA_AMP = re.compile(
    r"torch\.cuda\.amp\.(?:autocast_mode\.|grad_scaler\.)?(autocast|GradScaler|custom_fwd|custom_bwd)\Z"
)
_ANY_AMP = re.compile(
    r"torch\.(?:amp\.(?:autocast_mode\.|grad_scaler\.)?)?(autocast|GradScaler|custom_fwd|custom_bwd)\Z"
)
_SINCE = {
    "autocast": "torch.amp.autocast",
    "GradScaler": "torch.amp.GradScaler",
    "custom_fwd": "torch.amp.custom_fwd",
    "custom_bwd": "torch.amp.custom_fwd",
}
_ASKS = re.compile(r"""is_available|["']cpu["']|["']cuda["']|["']mps["']|use_mps|\.is_cuda""")


@dataclass(frozen=True)
class Meaning:
    """What a reference stands for: `kind` is one of the four names; `cuda`: that of torch.cuda.amp.

    `binding` is the import that the reference goes through, when a change of that import alone would rename it.
    """

    kind: str
    cuda: bool
    binding: Binding | None = None


@dataclass(frozen=True)
class Plan:
    """The edits that mend one use, what the use becomes in words, and how sure that is."""

    edits: tuple[Edit, ...]
    written: str
    safety: Safety = Safety.SAFE


def meaning(context: Context, reference: Node) -> Meaning | None:
    """What a name or dotted expression stands for, if that is one of the four names of amp."""
    module = context.module
    name = module.qualname(reference)
    found = None
    if name is not None and "." in name:
        found = named(name)
    elif name is None and reference.type == "identifier":
        found = _with_fallback(context, reference)
    if found is None:
        return None
    root = reference
    while root.type == "attribute" and (owner := field(root, "object")) is not None:
        root = owner
    bindings = module.names.lookup(root)
    only = bindings[0] if len(bindings) == 1 and (bindings[0].target or "").startswith("torch.cuda.amp") else None
    return Meaning(found[0], found[1], only)


def named(name: str) -> tuple[str, bool] | None:
    """(kind, whether it is torch.cuda.amp's) of a qualified name, if it is one of the four."""
    for pattern, cuda in ((_CUDA_AMP, True), (_ANY_AMP, False)):
        if match := pattern.match(name):
            return match.group(1), cuda
    return None


def _with_fallback(context: Context, identifier: Node) -> tuple[str, bool] | None:
    """A name that is imported (or assigned) from torch.cuda.amp, and defined by hand where that fails."""
    found: set[tuple[str, bool]] = set()
    for binding in context.module.names.lookup(identifier):
        if binding.kind in ("class", "function") or (binding.value is not None and binding.value.type == "none"):
            if not any(a.type in ("except_clause", "else_clause", "if_statement") for a in ancestors(binding.node)):
                return None
            continue
        value = binding.value if binding.kind == "assignment" else None
        name = binding.target or context.module.qualname(value)
        known = named(name) if name is not None else None
        if known is None:
            return None
        found.add(known)
    return found.pop() if len(found) == 1 else None


def offered(context: Context, kind: str) -> bool:
    """Whether the oldest supported torch has the name in torch.amp."""
    return context.target.has(_SINCE[kind])


def device_there(context: Context, node: Node) -> Device:
    """The device at `node`, its type by a variable `device_type` where the code has one (for torch.autocast)."""
    device = context.placement.device(node)
    scopes = {a.id for a in ancestors(node)}
    for binding in context.module.names.bindings("device_type"):
        if binding.scope.id not in scopes or binding.kind not in ("assignment", "parameter"):
            continue
        later = binding.node.end_byte <= node.start_byte
        in_module = binding.scope.type == "module"
        alone = binding.kind == "parameter" or any(
            same(a.parent, binding.scope) or same(a.parent, field(binding.scope, "body"))
            for a in ancestors(binding.node)
        )
        if alone and (later or (in_module and not context.module.at_import(node))):
            return Device(device.expr, "device_type", ())
    return device


# -- one use ---------------------------------------------------------------------------------------------------


def call_of(reference: Node) -> Call | None:
    """The call of a reference, when it is called."""
    parent = reference.parent
    return (
        Call(parent)
        if parent is not None and parent.type == "call" and same(field(parent, "function"), reference)
        else None
    )


def plan(context: Context, reference: Node, meant: Meaning, *, renamed: bool) -> Plan | None:
    """How one use is mended; None where a person must. `renamed`: the import that it goes through is changed too."""
    call = call_of(reference)
    if context.is_scripted(reference):
        return None
    head = _head(context, reference, meant, renamed=renamed)
    if call is None:
        return _uncalled(context, reference, meant, head)
    if any(a.starred and text(a.node).startswith("*") and not text(a.node).startswith("**") for a in call.arguments):
        return None
    if meant.kind == "autocast":
        return _autocast(context, call, meant, head)
    if meant.kind == "GradScaler":
        return _scaler(context, call, meant, head)
    return _custom(context, call, head)


def _head(context: Context, reference: Node, meant: Meaning, *, renamed: bool) -> Expression:
    """How the name is spelled after the change."""
    old = text(reference)
    if renamed or not meant.cuda:
        return Expression(old)
    if ".cuda.amp." in old:
        return Expression(old.replace(".cuda.amp.", ".amp."))
    torch = context.placement.torch_name(reference)
    return Expression(f"{torch.text}.amp.{meant.kind}", torch.edits)


def _respelled(context: Context, reference: Node, head: Expression) -> list[Edit]:
    if head.text == text(reference):
        return []
    return [context.module.replace(reference, head.text), *head.edits]


def _uncalled(context: Context, reference: Node, meant: Meaning, head: Expression) -> Plan | None:
    if is_type(reference) and meant.kind in ("autocast", "GradScaler"):
        return Plan(tuple(_respelled(context, reference, head)), head.text)
    parent = reference.parent
    if meant.kind.startswith("custom_") and parent is not None and parent.type == "decorator":
        device = device_there(context, reference)
        new = f"{head.text}(device_type={device.type})"
        edits = [context.module.replace(reference, new), *head.edits, *device.edits]
        return Plan(tuple(edits), new, safety_at(context, reference))
    return None


def is_type(node: Node) -> bool:
    """Whether a name is only used as a type: an annotation, `isinstance`."""
    for parent in ancestors(node):
        if parent.type == "type":
            return True
        if parent.type == "call":
            return text(Call(parent).function) in ("isinstance", "issubclass")
        if parent.type not in ("argument_list", "tuple", "subscript", "binary_operator"):
            return False
    return False


def _custom(context: Context, call: Call, head: Expression) -> Plan | None:
    module, device = context.module, device_there(context, call.node)
    given = call.keyword("device_type")
    edits = _respelled(context, call.function, head)
    if given is not None:
        if not is_cuda_literal(context, given.value):
            return None
        edits.append(module.replace(given.value, device.type))
    else:
        offset, addition = call.insertion(f"device_type={device.type}")
        edits.append(module.insert(offset, addition))
    new = f"{head.text}(..., device_type={device.type})"
    return Plan((*edits, *device.edits), new, safety_at(context, call.node))


def _autocast(context: Context, call: Call, meant: Meaning, head: Expression) -> Plan | None:
    device = device_there(context, call.node)
    kind, cpu = casting(context, device.type)
    condition = (
        None if _is_bfloat16(context, call.argument(1, "dtype")) or needs_accelerator(context, call.node) else cpu
    )
    names = (
        ("enabled", "dtype", "cache_enabled") if meant.cuda else ("device_type", "dtype", "enabled", "cache_enabled")
    )
    written = _written(context, call, meant, kind, condition, names)
    if written is None:
        return None
    edits, shown = written
    edits = [*_respelled(context, call.function, head), *edits, *device.edits]
    return Plan(tuple(edits), f"{head.text}({shown})", safety_at(context, call.node))


def casting(context: Context, kind: str) -> tuple[str, str]:
    """The device type for torch.amp.autocast, and the condition under which it casts to float16."""
    if context.target.has("torch.autocast.mps"):
        return kind, f'{kind} != "cpu"'
    return f'"cpu" if {kind} == "mps" else {kind}', f'{kind} not in ("cpu", "mps")'  # it raised for MPS before


def _scaler(context: Context, call: Call, meant: Meaning, head: Expression) -> Plan | None:
    device = device_there(context, call.node)
    names = ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled")
    written = _written(
        context, call, meant, device.type, f'{device.type} == "cuda"', names if meant.cuda else ("device", *names)
    )
    if written is None:
        return None
    edits, shown = written
    edits = [*_respelled(context, call.function, head), *edits, *device.edits]
    safety = Safety.UNSAFE if call.has_star else safety_at(context, call.node)
    return Plan(tuple(edits), f"{head.text}({shown})", safety)


def _written(
    context: Context, call: Call, meant: Meaning, kind: str, condition: str | None, names: tuple[str, ...]
) -> tuple[list[Edit], str] | None:
    """Edits of the arguments: the device type first, and `enabled` only where `condition` holds; and both in words."""
    module = context.module
    edits: list[Edit] = []
    lead, tail = f"{kind}, ", ""
    first = names[0] if not meant.cuda else None
    device = call.argument(0, first) if first is not None else None
    if device is not None:
        literal = _literal(context, device.value)
        if literal is None:
            return None
        edits.append(module.replace(literal, kind))
        lead = ""
        if not same(literal, strip_parens(device.value)):
            condition = None  # `"cuda" if args.cuda else "cpu"`: wanted on the CPU too
    elif first == "device_type" or (first is not None and call.has_star):
        return None
    enabled = call.argument(names.index("enabled"), "enabled")
    if condition is not None and enabled is not None:
        edits += _narrowed(context, enabled, condition)
    elif condition is not None and not call.has_star:
        tail = f"enabled={condition}"
    shown = ", ".join(part for part in (kind, "..." if call.arguments[bool(device) :] else "", tail) if part)
    if not call.arguments:
        inside = ", ".join(part for part in (lead.rstrip(", "), tail) if part)
        return [*edits, module.insert(call.argument_list.start_byte + 1, inside)], shown
    shifted = meant.cuda and meant.kind == "autocast"  # torch.amp.autocast has its arguments in another order
    for number, argument in enumerate(call.arguments):
        before = lead if number == 0 else ""
        if shifted and argument.name is None and not argument.starred:
            if number >= len(names):
                return None
            before += f"{names[number]}="
        if before:
            edits.append(module.insert(argument.node.start_byte, before))
    if tail:
        offset, addition = call.insertion(tail)
        edits.append(module.insert(offset, addition))
    return edits, shown


def _narrowed(context: Context, enabled: Argument, condition: str) -> list[Edit]:
    """`enabled` holds only where `condition` does too."""
    value, module = enabled.value, context.module
    inner = strip_parens(value)
    own = text(inner)
    if inner.type == "false" or condition in own:
        return []
    if inner.type == "true" or _is_availability(own):
        return [module.replace(value, condition)]
    if "==" not in condition and _ASKS.search(f"{own} {_bound(context, inner)}"):
        return []  # asks for a device already
    if value.type in ("conditional_expression", "lambda", "named_expression") or (
        value.type == "boolean_operator" and any(c.type == "or" for c in value.children)
    ):
        return [module.replace(value, f"({text(value)}) and {condition}")]
    return [module.insert(value.end_byte, f" and {condition}")]


def _is_availability(source: str) -> bool:
    return bool(re.fullmatch(r"\w+\.(?:cuda|accelerator)\.is_available\(\)", source))


def _bound(context: Context, node: Node) -> str:
    """What a name is bound to, as source."""
    if node.type != "identifier":
        return ""
    return " ".join(text(b.value) for b in context.module.names.lookup(node) if b.value is not None)


def _is_bfloat16(context: Context, dtype: Argument | None) -> bool:
    if dtype is None:
        return False
    value = strip_parens(dtype.value)
    if context.module.qualname(value) == "torch.bfloat16":
        return True
    values = [b.value for b in context.module.names.lookup(value)] if value.type == "identifier" else []
    return bool(values) and all(v is not None and context.module.qualname(v) == "torch.bfloat16" for v in values)


def _literal(context: Context, value: Node) -> Node | None:
    """The string that spells CUDA: `value` itself, or what it is under a flag (`"cuda" if args.cuda else "cpu"`)."""
    value = strip_parens(value)
    if value.type == "conditional_expression":
        parts = [child for child in value.named_children if child.type != "comment"]
        found = [part for part in (parts[0], parts[-1]) if is_cuda_literal(context, part)]
        return strip_parens(found[0]) if len(found) == 1 and "is_available" not in text(parts[1]) else None
    return value if is_cuda_literal(context, value) else None


def is_cuda_literal(context: Context, value: Node) -> bool:
    """Whether a value spells a CUDA device."""
    value = strip_parens(value)
    literal = device_literal(context.module, value) if value.type == "string" else None
    return literal is not None


def safety_at(context: Context, node: Node) -> Safety:
    """Asking for a device at import, before the program sets CUDA_VISIBLE_DEVICES, is not the same program."""
    early = context.facts.must_ask_late and context.module.at_import(node)
    return Safety.UNSAFE if early else Safety.SAFE
