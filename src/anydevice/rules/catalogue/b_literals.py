"""Group B, second part: CUDA devices spelled out as strings or torch.device objects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.amp_names import is_alternative_autocast
from anydevice.rules.availability import chosen_literals
from anydevice.rules.choice import asks_availability
from anydevice.rules.literal import DeviceLiteral, device_literal
from anydevice.rules.loaded import is_map_location
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, field, same, statement, text, walk

_DEVICE_WORD = re.compile(r"dev(?:ice)?\b|device|cuda|gpu|location", re.I)
_SPELLED = re.compile(r"""["']cuda""")
_SETS_DEVICE = re.compile(r"\b(?:cuda\.set_device|accelerator\.set_device_ind?e?x)\(")
_OTHERS = re.compile(r"\b(?:mps|xpu|npu|mlu|hpu)\b")
# Calls whose string argument is not a value that reaches torch as a device, or belongs to another family of rules.
_NOT_OURS = re.compile(
    r"(?:^|\.)(?:autocast|GradScaler|custom_fwd|custom_bwd|init_device_mesh|DeviceMesh|impl|register_kernel|custom_op|Library"
    r"|hasattr|getattr|setattr|methodcaller|print|debug|info|warning|warn|error|log|exception|startswith|endswith|find|replace"
    r"|split|join|count|index|get|pop|import_module|add_scalar|skipIf|skip|skipif|parametrize|getenv|TypeVar|field_name"
    r"|is_autocast_available|get_autocast_dtype|is_autocast_enabled|set_autocast_dtype|DispatchKey|register_autocast)$"
)
_FROM_TORCH = frozenset({"to", "new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "to_empty"})


@dataclass(frozen=True)
class _Written:
    """What to write for a literal, and how sure that is."""

    replaced: Node
    text: str
    edits: tuple[Edit, ...]
    safety: Safety = Safety.SAFE


class HardcodedDeviceLiteral(PythonRule):
    """`"cuda"`, `"cuda:1"`, `f"cuda:{rank}"` and `torch.device("cuda")` name one maker's device.

    Instead: the chosen device. Where torch takes a device it is given `device`; where the string is a value of the
    program (a default, a constant, an argument of one's own function) it becomes `device.type`, which on a CUDA machine
    is the same string. An index is kept where devices have one.
    """

    code = "ADB05"
    name = "hardcoded-device-literal"
    summary = "a CUDA device is spelled out"
    text_anchors = ("cuda",)
    examples = (
        Example(
            "a factory",
            'import torch\nx = torch.zeros(2, device="cuda")\n',
            "import torch\nx = torch.zeros(2, device=device)\n",
        ),
        Example("a move", 'import torch\nm.to("cuda:0")\n', "import torch\nm.to(device)\n"),
        Example("an index", 'import torch\nm.to(f"cuda:{i}")\n', "import torch\nm.to(device_for(i))\n"),
        Example(
            "a formatted index",
            'import torch\nd = torch.device("cuda:%d" % args.gpu)\n',
            "import torch\nd = device_for(args.gpu)\n",
        ),
        Example(
            "a device object",
            'import torch\nd = torch.device("cuda")\n',
            "import torch\nd = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "
            'torch.device("cpu")\n',
        ),
        Example(
            "a constant",
            'import torch\nDEV = "cuda"\n',
            'import torch\nDEV = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"\n',
        ),
        Example(
            "a default",
            'import torch\ndef f(x, where="cuda"):\n    return x.to(where)\n',
            "import torch\ndef f(x, where=device.type):\n    return x.to(where)\n",
        ),
        Example(
            "an argument of a program",
            'import torch\nparser.add_argument("--device", default="cuda")\n',
            'import torch\nparser.add_argument("--device", default=device.type)\n',
        ),
        Example(
            "a context",
            'import torch\nwith torch.device("cuda"):\n    m = f()\n',
            "import torch\nwith device:\n    m = f()\n",
        ),
        Example(
            "a flag's device",
            'import torch\nd = torch.device("cuda" if args.cuda else "cpu")\n',
            'import torch\nd = torch.device(device if args.cuda else "cpu")\n',
        ),
        Example(
            "its own function's argument",
            'import torch\nrun(model, "cuda")\n',
            "import torch\nrun(model, device.type)\n",
        ),
        Example("a list of devices", 'import torch\nfor d in ["cpu", "cuda"]:\n    f(d)\n'),
    )
    leaves = (
        Leave('import torch\nprint("cuda")\nlog.info("cuda")\n', "a message"),
        Leave('import torch\nt["cuda"] = 1\nd = {"cuda": 2}\n', "a key"),
        Leave('import torch\nopen("cuda.txt")\nurl = "https://a/cuda:0"\n', "a file name, a URL"),
        Leave('import torch\nif hasattr(torch, "cuda"):\n    pass\n', "a question"),
        Leave('import torch\np.add_argument("--d", choices=["cpu", "cuda"])\n', "a list of what may be given"),
        Leave('import torch\np.add_argument("--cuda", dest="cuda")\n', "the name of an option"),
        Leave('import torch\nfrom typing import Literal\nx: Literal["cuda", "cpu"]\n', "a type"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        literal = device_literal(site.module, site.leaf)
        if literal is None:
            return
        context = site.context
        outer = literal.device_call or literal.node
        if _in_choice(context, outer) or is_map_location(outer):
            return
        if context.is_scripted(outer):
            yield context.finding(
                self, outer, "TorchScript freezes this device: pass it in as an argument", Safety.MANUAL
            )
            return
        written = _written(context, literal)
        if written is None:
            return
        message = f"`{text(outer)}` names one maker's device"
        if written.safety is Safety.MANUAL:
            yield context.finding(self, outer, f"{message}: {written.text}", Safety.MANUAL)
            return
        safety = written.safety
        late = context.facts.must_ask_late and site.module.at_import(outer) and not _is_asked_before(outer)
        if late and written.edits:
            safety = Safety.UNSAFE
            message += (
                ", and asking for one here, at import, comes before the program sets CUDA_VISIBLE_DEVICES or forks"
            )
        yield context.finding(
            self,
            outer,
            f"{message}; write `{written.text}`",
            safety,
            [site.module.replace(written.replaced, written.text), *written.edits],
        )


def _is_asked_before(node: Node) -> bool:
    """Whether a statement before, in the same block, sets the current device, so that CUDA is asked for by then."""
    before = statement(node).prev_named_sibling
    while before is not None:
        if _SETS_DEVICE.search(text(before)) and before.type not in ("function_definition", "class_definition"):
            return True
        before = before.prev_named_sibling
    return False


def _in_choice(context: Context, node: Node) -> bool:
    """Whether the literal is a branch of a choice that another rule mends, or that knows of other accelerators."""
    for parent in ancestors(node):
        if parent.type == "conditional_expression":
            parts = [c for c in parent.named_children if c.type != "comment"]
            if _OTHERS.search(text(parent)):
                return True
            if len(parts) == 3 and any(q for q in _questions(context, parts[1]) if chosen_literals(context, q)):
                return True
        if parent.type == "boolean_operator" and any(chosen_literals(context, q) for q in _questions(context, parent)):
            return True
        if parent.type == "if_statement":
            holder = node.parent
            if holder is None or holder.type not in ("assignment", "return_statement"):
                return False
            conditions = [c for clause in [parent, *parent.children] if (c := field(clause, "condition")) is not None]
            if any(_OTHERS.search(text(c)) and asks_availability(context.module, c) for c in conditions):
                return True
            chosen = [lit for c in conditions for q in _questions(context, c) for lit in chosen_literals(context, q)]
            return any(same(lit.device_call or lit.node, node) for lit in chosen)
        if parent.type in ("function_definition", "class_definition"):
            break
    return False


def _questions(context: Context, condition: Node) -> Iterator[Node]:
    if "is_available" not in text(condition):
        return
    for node in walk(condition):
        if node.type == "call" and context.module.qualname(field(node, "function")) == "torch.cuda.is_available":
            yield node


def _written(context: Context, literal: DeviceLiteral) -> _Written | None:
    """What stands where the literal stood; None where it is no device."""
    outer = literal.device_call or literal.node
    current: Node = outer
    parent = outer.parent
    while parent is not None and parent.type in (
        "parenthesized_expression",
        "conditional_expression",
        "boolean_operator",
    ):
        if parent.type == "conditional_expression":
            condition = parent.named_child(1)
            if condition is None or same(condition, current) or _SPELLED.search(text(condition)):
                return None  # `"cuda" if "cuda" in device else "cpu"` is a question about a device, see ADB06
        current, parent = parent, parent.parent
    if parent is None:
        return None
    if literal.device_call is not None or literal.in_choice_argument:
        return _object(context, literal, outer, parent, current)
    kind = parent.type
    if kind in (
        "comparison_operator",
        "subscript",
        "expression_statement",
        "type",
        "concatenated_string",
        "assert_statement",
        "raise_statement",
        "binary_operator",
        "print_statement",
        "interpolation",
        "attribute",
    ):
        return None
    if kind == "pair":
        key = field(parent, "key")
        if same(key, current):
            return None
        table = parent.parent.parent if parent.parent is not None else None
        holder = field(table, "name") if table is not None and table.type == "keyword_argument" else None
        named = text(key or parent) + (text(holder) if holder is not None else "")  # device_map={"": "cuda"}
        return _value(context, literal, evident=bool(_DEVICE_WORD.search(named)))
    if kind in ("argument_list", "keyword_argument"):
        return _argument(context, literal, parent)
    if kind in ("list", "tuple", "set", "expression_list"):
        return _element(context, parent)
    if kind in ("assignment", "named_expression"):
        return _assigned(context, literal, parent, direct=same(current, outer))
    if kind in ("default_parameter", "typed_default_parameter"):
        return _value(context, literal)
    if kind == "return_statement":
        name = context.module.function_name(outer) or ""
        return _value(context, literal, evident=bool(_DEVICE_WORD.search(name)))
    return _value(context, literal, evident=False)


def _index(context: Context, literal: DeviceLiteral) -> str | None:
    return None if literal.index == "0" and not context.facts.sets_device else literal.index


def _object(context: Context, literal: DeviceLiteral, outer: Node, parent: Node, current: Node) -> _Written:
    """For `torch.device(...)` and for what is given to it."""
    placement, index = context.placement, _index(context, literal)
    if index is not None:
        expression = placement.indexed(outer, index)
        return _Written(outer, expression.text, expression.edits)
    assigned = parent.type == "assignment" and same(current, outer) and context.target.has_accelerator
    if assigned and (target := field(parent, "left")) is not None and target.type == "identifier":
        torch = placement.torch_name(outer)
        accelerator = f"{torch.text}.accelerator"
        return _Written(
            outer,
            f'{accelerator}.current_accelerator() if {accelerator}.is_available() else {torch.text}.device("cpu")',
            torch.edits,
        )
    device = placement.device_object(outer)
    return _Written(outer, device.expr, device.edits)


def _value(context: Context, literal: DeviceLiteral, *, evident: bool = True) -> _Written:
    """For a string that is a value of the program: the same string on CUDA."""
    index = _index(context, literal)
    safety = Safety.SAFE if evident else Safety.UNSAFE
    if index is not None:
        expression = context.placement.indexed(literal.node, index)
        return _Written(literal.node, f"str({expression.text})", expression.edits, safety)
    device = context.placement.device(literal.node)
    return _Written(literal.node, device.type, device.edits, safety)


def _argument(context: Context, literal: DeviceLiteral, parent: Node) -> _Written | None:
    keyword = text(field(parent, "name") or parent) if parent.type == "keyword_argument" else None
    arguments = parent.parent if keyword is not None else parent
    node = arguments.parent if arguments is not None else None
    if node is None or node.type != "call":
        return _value(context, literal, evident=keyword is not None and bool(_DEVICE_WORD.search(keyword)))
    call = Call(node)
    name = context.module.qualname(call.function) or text(call.function)
    if _NOT_OURS.search(name) or (call.method == "cuda" and keyword in (None, "device")):
        return None
    if is_alternative_autocast(context, call.function):
        return None
    if keyword in ("choices", "help", "description", "title", "name", "label", "dest"):
        return None
    if call.method in ("add_argument", "add_option", "DEFINE_string") and keyword not in ("default", "const"):
        return None
    if keyword is None and call.method == "format":
        return None
    torch_takes_it = name.startswith("torch.") or call.method in _FROM_TORCH
    if torch_takes_it and (keyword is None or keyword in ("device", "map_location")):
        return _given_to_torch(context, literal)
    evident = keyword is not None and (keyword == "default" or bool(_DEVICE_WORD.search(keyword)))
    evident = evident or name.startswith("safetensors.")
    if keyword == "default" and call.method == "add_argument":
        evident = True
    return _value(context, literal, evident=evident)


def _given_to_torch(context: Context, literal: DeviceLiteral) -> _Written:
    index = _index(context, literal)
    if index is not None:
        expression = context.placement.indexed(literal.node, index)
        return _Written(literal.node, expression.text, expression.edits)
    device = context.placement.device(literal.node)
    return _Written(literal.node, device.expr, device.edits)


def _element(context: Context, holder: Node) -> _Written | None:
    """In a list of devices: something to choose from, or to loop over."""
    parent = holder.parent
    if parent is None or parent.type in ("comparison_operator", "subscript", "type", "keyword_argument"):
        return None
    if parent.type == "argument_list" and parent.parent is not None and parent.parent.type == "call":
        name = text(Call(parent.parent).function)
        if _NOT_OURS.search(name):
            return None
    return _Written(
        holder,
        "a list of devices: add the other accelerators, or build it from what the machine has",
        (),
        Safety.MANUAL,
    )


def _given_as_device(context: Context, name: str) -> bool:
    """Whether a name is given to torch as a device somewhere: `map_location=loc`, `device=d`, `.to(d)`."""
    given = rb"(?:\b(?:map_location|device)[ ]*=[ ]*|\.to\()" + re.escape(name.encode()) + rb"[ ]*[,)]"
    return re.search(given, context.module.data) is not None


def _assigned(context: Context, literal: DeviceLiteral, assignment: Node, *, direct: bool) -> _Written | None:
    target = field(assignment, "left") or field(assignment, "name")
    name = text(target) if target is not None else ""
    evident = bool(_DEVICE_WORD.search(name)) or _given_as_device(context, name)
    plain = target is not None and target.type == "identifier" and context.module.class_scope(assignment) is None
    if plain and direct and _index(context, literal) is None and context.target.has_accelerator:
        torch = context.placement.torch_name(literal.node)
        accelerator = f"{torch.text}.accelerator"
        return _Written(
            literal.node,
            f'{accelerator}.current_accelerator().type if {accelerator}.is_available() else "cpu"',
            torch.edits,
            Safety.SAFE if evident else Safety.UNSAFE,
        )
    return _value(context, literal, evident=evident)
