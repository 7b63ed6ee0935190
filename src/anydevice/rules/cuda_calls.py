"""Writes calls of `torch.cuda` in the form that runs everywhere: what to call, and behind which question."""

from __future__ import annotations

from dataclasses import dataclass

from tree_sitter import Node

from anydevice.finding import Edit
from anydevice.rules.cuda_api import MEMORY_SINCE, Api, Fate, lookup, member
from anydevice.rules.guards import needs_accelerator, needs_cuda
from anydevice.rules.literal import device_literal
from anydevice.rules.placement import Expression
from anydevice.rules.site import Context
from anydevice.source.calls import Argument, Call
from anydevice.source.syntax import ancestors, field, first_named, same, statement, strip_parens, text

# Where a conditional expression needs no parentheses of its own.
_FREE = frozenset(
    {
        "assignment",
        "return_statement",
        "parenthesized_expression",
        "argument_list",
        "keyword_argument",
        "list",
        "tuple",
        "expression_statement",
        "interpolation",
        "pair",
        "expression_list",
        "with_item",
        "yield",
        "default_parameter",
    }
)


# Names that people give to the number of a device.
NUMBERS = frozenset({"rank", "local_rank", "gpu", "gpu_id", "device_id", "device_index", "index", "i", "idx"})

# What is asked of a stream or of a tensor for a stream's sake, and only there.
STREAM_METHODS = frozenset({"wait_stream", "wait_event", "record_stream", "record_event", "synchronize"})


@dataclass(frozen=True)
class Written:
    """The new form of a call: its function and arguments (None: as they are), and when it may be asked.

    `condition` is None where it may always be asked: no guard is needed, or one is there already.
    """

    function: str
    arguments: str | None
    condition: Expression | None
    edits: tuple[Edit, ...] = ()

    def text(self, call: Call) -> str:
        """The call in its new form."""
        return self.function + (text(call.argument_list) if self.arguments is None else f"({self.arguments})")


def written(context: Context, call: Call, name: str) -> Written | None:
    """What `torch.cuda.<name>(...)` becomes; None where it is right as it stands."""
    api = lookup(name)
    assert api is not None
    torch = context.placement.torch_name(call.node)
    if api.fate in (Fate.ACCELERATOR, Fate.MODULE) and api.in_target(context.target) and context.target.has_accelerator:
        guarded = needs_accelerator(context, call.node)
        return Written(
            f"{torch.text}.{_holder(context, api, torch.text)}.{api.counterpart}",
            device_arguments(context, call),
            None if guarded else context.placement.available(call.node),
            torch.edits,
        )
    if needs_cuda(context, call.node):
        return None
    return Written(text(call.function), None, Expression(f"{torch.text}.cuda.is_available()", torch.edits))


def _holder(context: Context, api: Api, torch: str) -> str:
    if api.fate is Fate.ACCELERATOR or (api.counterpart == "empty_cache" and context.target.torch >= MEMORY_SINCE):
        return "accelerator"
    # asked for by name: without an argument the answer is that of the build, not of the machine
    return f"get_device_module({torch}.accelerator.current_accelerator())"


def device_arguments(context: Context, call: Call) -> str | None:
    """The arguments, device first and without its name, as torch.accelerator takes them; None: as they are."""
    argument = call.argument(0, "device")
    if argument is None or argument.starred:
        return None
    device = device_number(context, argument.value)
    if device is None and argument.name is None:
        return None
    others = [text(a.node) for a in call.arguments if not same(a.node, argument.node)]
    first = text(argument.value) if device is None else device
    return ", ".join([*([first] if first else []), *others])


def device_number(context: Context, value: Node) -> str | None:
    """The index that a spelled-out CUDA device names, `""` when it names none; None for anything else."""
    string = _first_string(context, value)
    literal = device_literal(context.module, string) if string is not None else None
    if literal is None or not same(strip_parens(value), literal.device_call or literal.node):
        return None
    index = literal.index or ""
    counted = value.type == "call" and len(Call(value).arguments) > 1
    plain = not index or index.isdigit() or index.rsplit(".", 1)[-1] in NUMBERS or index.startswith("int(")
    return index if plain or counted else f"int({index})"


def _first_string(context: Context, value: Node) -> Node | None:
    """The string literal in which the device is spelled: `"cuda:1"`, `"cuda:%d" % i`, `torch.device("cuda:1")`."""
    value = strip_parens(value)
    if value.type == "string":
        return value
    if value.type == "binary_operator":
        left = field(value, "left")
        return left if left is not None and left.type == "string" else None
    if value.type != "call":
        return None
    call = Call(value)
    if call.method == "format" and call.receiver is not None and call.receiver.type == "string":
        return call.receiver
    kind = call.argument(0, "type", "device")
    if context.module.qualname(call.function) != "torch.device" or kind is None:
        return None
    return _first_string(context, kind.value)


def rewrite(context: Context, call: Call, form: Written, otherwise: str | None = None) -> list[Edit]:
    """The edits that put `form` in place of `call`; `otherwise` is the value where its condition does not hold."""
    module, function = context.module, call.function
    edits = list(form.edits)
    condition = form.condition
    if condition is not None:
        edits += condition.edits
        run = statement_run(context, call, condition.text)
        if run:
            return edits + _guard_statements(context, run, condition.text)
    start, end = "", ""
    if condition is not None:
        start, end = ("", "") if is_free(call.node) else ("(", ")")
        end = f" if {condition.text} else {otherwise or 'None'}{end}"
    if start + form.function != text(function):
        edits.append(module.replace(function, start + form.function))
    if form.arguments is not None:
        edits.append(module.replace(call.argument_list, f"({form.arguments}){end}"))
    elif end:
        edits.append(module.insert(call.node.end_byte, end))
    return edits


def is_free(node: Node) -> bool:
    """Whether a conditional expression may stand for `node` without parentheses."""
    return node.parent is not None and node.parent.type in _FREE


def is_statement(context: Context, call: Call) -> bool:
    """Whether the call is a statement, alone on its line, so that an `if` can be put before it."""
    module, owner = context.module, statement(call.node)
    rest = module.data[owner.end_byte : module.line_end(owner.end_byte - 1)].lstrip(b" \t")
    return (
        owner.type == "expression_statement"
        and owner.named_child_count == 1
        and same(first_named(owner), call.node)
        and module.starts_line(owner)
        and not rest.startswith(b";")
    )


def guarded_statement(context: Context, node: Node) -> list[Edit] | None:
    """The edits that put the statement around `node` behind a question for CUDA; None where it is no plain one."""
    module, owner = context.module, statement(node)
    inner = first_named(owner) if owner.type == "expression_statement" and owner.named_child_count == 1 else None
    if inner is None or inner.type != "call" or not is_statement(context, Call(inner)):
        return None
    if Call(inner).method not in STREAM_METHODS and not _is_cudas(context, inner):
        return None
    torch = context.placement.torch_name(node)
    lead = f"if {torch.text}.cuda.is_available():\n{module.indent(owner)}{module.indent_unit}"
    return [module.insert(owner.start_byte, lead), *torch.edits]


def _is_cudas(context: Context, node: Node) -> bool:
    """Whether a call is one of torch.cuda's own: `torch.cuda.f(...)`, `torch.cuda.cudart().g(...)`."""
    current: Node | None = node
    while current is not None:
        if current.type == "call":
            current = field(current, "function")
        elif (context.module.qualname(current) or "").startswith("torch.cuda."):
            return True
        else:
            current = field(current, "object") if current.type == "attribute" else None
    return False


def statement_run(context: Context, call: Call, condition: str) -> list[tuple[Call, Written]]:
    """The statements that one `if condition:` can hold together with this call: itself and like ones beside it."""
    if not is_statement(context, call):
        return []
    owner = statement(call.node)
    before: list[tuple[Call, Written]] = []
    after: list[tuple[Call, Written]] = []
    for siblings, step in ((before, "prev_sibling"), (after, "next_sibling")):
        sibling = getattr(owner, step)
        while sibling is not None and (member := _member(context, sibling, condition)) is not None:
            siblings.append(member)
            sibling = getattr(sibling, step)
    own = _form(context, call)
    return [*reversed(before), *([(call, own)] if own is not None else []), *after]


def _member(context: Context, sibling: Node, condition: str) -> tuple[Call, Written] | None:
    inner = first_named(sibling) if sibling.type == "expression_statement" else None
    if inner is None or inner.type != "call" or not is_statement(context, Call(inner)):
        return None
    form = _form(context, Call(inner))
    if form is None or form.condition is None or form.condition.text != condition:
        return None
    return Call(inner), form


def _form(context: Context, call: Call) -> Written | None:
    """The form of a call that is a statement."""
    name = member(context.module.qualname(call.function))
    api = lookup(name) if name is not None else None
    if name is None or api is None or call.has_star or api.fate not in (Fate.ACCELERATOR, Fate.MODULE, Fate.GUARDED):
        return None
    if name == "set_device":
        return set_device(context, call)
    return written(context, call, name)


def _guard_statements(context: Context, run: list[tuple[Call, Written]], condition: str) -> list[Edit]:
    """One `if` before the first statement of a run, and all of them indented under it."""
    module = context.module
    edits: list[Edit] = []
    for number, (call, form) in enumerate(run):
        unit = module.indent_unit
        lead = unit if number else f"if {condition}:\n{module.indent(call.node)}{unit}"
        edits += [*form.edits, module.replace(call.function, lead + form.function)]
        if form.arguments is not None:
            edits.append(module.replace(call.argument_list, f"({form.arguments})"))
    return edits


def set_device(context: Context, call: Call) -> Written | None:
    """`torch.cuda.set_device(d)` for any accelerator; None where it is right as it stands."""
    form = written(context, call, "set_device")
    argument = call.argument(0, "device")
    index = set_device_index(context, argument) if argument is not None else None
    if form is None:  # behind a question for CUDA, and torch.accelerator is not to be had
        return Written(text(call.function), index, None) if index is not None else None
    return Written(form.function, index, form.condition, form.edits)


def set_device_index(context: Context, argument: Argument) -> str | None:
    """What torch.accelerator.set_device_index is given: it wants an index, or a device that has one."""
    value = argument.value
    number = device_number(context, value)
    if number is not None:
        return number or "0"
    kind = _kind_of_device(context, value)
    if kind == "object":
        return f"{text(value)}.index or 0"
    if kind == "name":
        return f"{context.placement.torch_name(value).text}.device({text(value)}).index or 0"
    return text(value) if argument.name is not None else None


def _kind_of_device(context: Context, value: Node) -> str | None:
    """`object` for a name that is bound to torch.device objects only, `name` for one bound to strings only."""
    if value.type != "identifier":
        return None
    bindings = context.module.names.lookup(value)
    kinds = {_kind(context, b.value) if b.value is not None and b.kind == "assignment" else None for b in bindings}
    return kinds.pop() if len(kinds) == 1 else None


def _kind(context: Context, node: Node) -> str | None:
    if node.type == "conditional_expression":
        parts = [child for child in node.named_children if child.type != "comment"]
        kinds = {_kind(context, parts[0]), _kind(context, parts[2])} if len(parts) == 3 else {None}
        return kinds.pop() if len(kinds) == 1 else None
    if node.type in ("string", "concatenated_string") or (node.type == "attribute" and text(node).endswith(".type")):
        return "name"
    if node.type == "binary_operator":
        return "name" if (left := node.child_by_field_name("left")) is not None and left.type == "string" else None
    if node.type != "call":
        return None
    function = Call(node).function
    if text(function) == "str" or text(function).endswith(".format"):
        return "name"
    made = context.module.qualname(function) in ("torch.device", "torch.accelerator.current_accelerator")
    return "object" if made or text(function) in ("device_for", "indexed_device", "_device_for") else None


def is_decorator(node: Node) -> bool:
    """Whether `node` stands in a decorator."""
    return any(parent.type == "decorator" for parent in ancestors(node))
