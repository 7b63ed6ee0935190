"""Group D, third part: code that asks whether a tensor is of a CUDA type."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.rules.typed import LegacyType, Role, legacy_type, parse, reference, use
from anydevice.source.calls import Call
from anydevice.source.syntax import same, string_value, strip_parens, text

_SIMPLE = frozenset({"identifier", "attribute", "subscript"})
# Where `a and b` may stand without parentheses around it.
_FREE = frozenset(
    {
        "if_statement",
        "elif_clause",
        "while_statement",
        "assert_statement",
        "assignment",
        "return_statement",
        "argument_list",
        "parenthesized_expression",
        "expression_statement",
        "keyword_argument",
    }
)


class LegacyTypeTest(PythonRule):
    """`x.type() == "torch.cuda.HalfTensor"` and `isinstance(x, torch.cuda.FloatTensor)` ask for a dtype and for CUDA at
    once, so that the answer is no on every other device.

    Instead: `x.device.type == device.type and x.dtype == torch.float16`, which on a CUDA machine is the same question;
    or the half of it that is meant.
    """

    code = "ADD04"
    name = "legacy-type-test"
    summary = "a tensor's type is compared with a CUDA type"
    anchors = ("cuda",)
    text_anchors = ("cuda",)
    examples = (
        Example(
            "the name of the type",
            "import torch\nif z.type() == 'torch.cuda.HalfTensor':\n    w = w.half()\n",
            "import torch\nif z.device.type == device.type and z.dtype == torch.float16:\n    w = w.half()\n",
        ),
        Example(
            "a negation",
            "import torch\nok = x.type() != 'torch.cuda.FloatTensor'\n",
            "import torch\nok = not (x.device.type == device.type and x.dtype == torch.float32)\n",
        ),
        Example(
            "several names",
            "import torch\nif x.type() in ('torch.cuda.FloatTensor', 'torch.cuda.HalfTensor'):\n    pass\n",
            "import torch\nif x.device.type == device.type and x.dtype in (torch.float32, torch.float16):\n    pass\n",
        ),
        Example(
            "the type on every device",
            "import torch\nif x.type() in ['torch.cuda.FloatTensor', 'torch.FloatTensor']:\n    pass\n",
            "import torch\nif x.dtype == torch.float32:\n    pass\n",
        ),
        Example(
            "a value that must not be asked twice",
            "import torch\nok = next(ps).type() == 'torch.cuda.FloatTensor'\n",
            "import torch\nok = next(ps).type() == torch.empty(0, dtype=torch.float32, device=device).type()\n",
        ),
        Example(
            "isinstance",
            "import torch\nok = isinstance(x, torch.cuda.LongTensor) or y\n",
            "import torch\nok = (torch.is_tensor(x) and x.device.type == device.type and x.dtype == torch.int64) or y\n",
        ),
        Example(
            "isinstance of several",
            "import torch\nif isinstance(x, (torch.FloatTensor, torch.cuda.FloatTensor)):\n    pass\n",
            "import torch\nif torch.is_tensor(x) and x.dtype == torch.float32:\n    pass\n",
        ),
        Example(
            "isinstance of any tensor",
            "import torch\nif isinstance(x, (torch.Tensor, torch.cuda.FloatTensor)):\n    pass\n",
            "import torch\nif isinstance(x, torch.Tensor):\n    pass\n",
        ),
        Example(
            "a part of the name",
            "import torch\nif 'cuda' in x.type():\n    pass\n",
            "import torch\nif x.device.type != 'cpu':\n    pass\n",
        ),
        Example(
            "the beginning of the name",
            "import torch\nok = not x.data.type().startswith('torch.cuda')\n",
            "import torch\nok = x.data.device.type == 'cpu'\n",
        ),
        Example("the class of a tensor", "import torch\nif type(x) == torch.cuda.FloatTensor:\n    pass\n"),
        Example("a key", "import torch\nif torch.cuda.HalfTensor in buckets:\n    pass\n"),
        Example("with other classes", "import torch\nif isinstance(x, (list, torch.cuda.FloatTensor)):\n    pass\n"),
    )
    leaves = (
        Leave("import torch\nif x.type() == 'torch.FloatTensor':\n    pass\n", "a type of the CPU"),
        Leave("if 'torch.cuda.FloatTensor' in line:\n    pass\n", "a text"),
        Leave("if 'cuda' in kind():\n    pass\n", "not the type of a tensor"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if site.in_string and string_value(site.leaf) in ("cuda", "torch.cuda", "torch.cuda."):
            yield from self._part_of_name(site)
            return
        found = reference(site)
        if found is None:
            return
        node, type_ = found
        usage = use(site.module, node)
        if usage.role is not Role.TESTS or not _is_first(site, usage.holder, node):
            return
        holder = usage.holder
        if holder.type == "call":
            yield self._instance(site.context, Call(holder))
        elif (asked := _asked(site, holder)) is not None or not site.in_string:
            yield self._compared(site.context, holder, asked, type_)

    # -- comparisons of names ----------------------------------------------------------------------------------

    def _compared(self, context: Context, comparison: Node, asked: Node | None, type_: LegacyType) -> Finding:
        operator = _operator(comparison)
        left, right = comparison.named_children[0], comparison.named_children[-1]
        types = _types(context, right if operator in ("in", "not in") else _other(comparison, asked))
        expression = _question(context, asked, types) if asked is not None and asked.type in _SIMPLE else None
        if asked is None or types is None or operator not in ("==", "!=", "in", "not in"):
            expression = None
        elif expression is None and len(types) == 1 and operator in ("==", "!=") and types[0].on_cuda:
            return self._once(context, comparison, left, right, types[0])
        if expression is None:
            return context.finding(
                self,
                comparison,
                f"asks for CUDA by type; ask for what is meant: `.dtype == torch.{type_.dtype}`, or where "
                "the tensor is (since torch 0.4 the class of every tensor is `torch.Tensor`)",
                Safety.MANUAL,
            )
        question, edits = expression
        new = f"not ({question})" if operator in ("!=", "not in") else question
        return context.finding(
            self,
            comparison,
            f"the answer is no on other devices; write `{new}`",
            Safety.SAFE,
            [context.module.replace(comparison, _in_place(comparison, new)), *edits],
        )

    def _once(self, context: Context, comparison: Node, left: Node, right: Node, type_: LegacyType) -> Finding:
        """For a tensor that cannot be named twice: compare with the name that the type has on the device."""
        torch, device = context.placement.torch_name(comparison), context.device(comparison)
        new = f"{torch.text}.empty(0, dtype={torch.text}.{type_.dtype}, device={device.expr}).type()"
        named = right if legacy_type(context.module, right) is not None else left
        return context.finding(
            self,
            comparison,
            f"the answer is no on other devices; compare with `{new}`",
            Safety.SAFE,
            [context.module.replace(named, new), *(device.edits or torch.edits)],
        )

    def _part_of_name(self, site: Site) -> Iterator[Finding]:
        parent = site.leaf.parent
        target: Node | None = None
        if parent is not None and parent.type == "comparison_operator" and _operator(parent) in ("in", "not in"):
            asked, target = _type_of(site, parent.named_children[-1]), parent
            positive = _operator(parent) == "in"
        elif parent is not None and parent.type == "argument_list" and parent.parent is not None:
            call = Call(parent.parent)
            is_prefix = call.method == "startswith" and call.receiver is not None and string_value(site.leaf) != "cuda"
            asked = _type_of(site, call.receiver) if is_prefix and call.receiver is not None else None
            target, positive = parent.parent, True
        else:
            return
        if asked is None or target is None:
            return
        if target.parent is not None and target.parent.type == "not_operator":
            target, positive = target.parent, not positive
        quote = text(site.leaf)[0]
        new = f"{text(asked)}.device.type {'!=' if positive else '=='} {quote}cpu{quote}"
        yield site.context.finding(
            self,
            target,
            f"the answer is no on other accelerators; write `{new}`",
            Safety.SAFE,
            [site.module.replace(target, _in_place(target, new))],
        )

    # -- isinstance --------------------------------------------------------------------------------------------

    def _instance(self, context: Context, call: Call) -> Finding:
        tensor = call.positional[0].value if len(call.positional) == 2 else None
        classes = call.positional[1].value if len(call.positional) == 2 else None
        types = _types(context, classes)
        torch = context.placement.torch_name(call.node)
        if types is not None and classes is not None and any(not type_.kind for type_ in types):
            return context.finding(
                self,
                call.node,
                f"every tensor is a `{torch.text}.Tensor`; ask for that alone",
                Safety.SAFE,
                [context.module.replace(classes, f"{torch.text}.Tensor"), *torch.edits],
            )
        question = _question(context, tensor, types) if tensor is not None and tensor.type in _SIMPLE else None
        if question is None or tensor is None:
            return context.finding(
                self,
                call.node,
                f"the answer is no on other devices; ask `{torch.text}.is_tensor(x)` and for its `.dtype`, and "
                "`.device` if that matters",
                Safety.MANUAL,
            )
        new = f"{torch.text}.is_tensor({text(tensor)}) and {question[0]}"
        return context.finding(
            self,
            call.node,
            f"the answer is no on other devices; write `{new}`",
            Safety.SAFE,
            [context.module.replace(call.node, _in_place(call.node, new)), *question[1]],
        )


def _question(context: Context, tensor: Node, types: list[LegacyType] | None) -> tuple[str, tuple[Edit, ...]] | None:
    """(the question whether `tensor` is of one of `types`, the edits that it needs)."""
    if not types or any(not type_.dense or not type_.kind for type_ in types):
        return None
    torch, device = context.placement.torch_name(tensor), context.device(tensor)
    dtypes = list(dict.fromkeys(f"{torch.text}.{type_.dtype}" for type_ in types))
    name = text(tensor)
    of_dtype = f"{name}.dtype == {dtypes[0]}" if len(dtypes) == 1 else f"{name}.dtype in ({', '.join(dtypes)})"
    on_cuda = {type_.kind for type_ in types if type_.on_cuda}
    on_cpu = {type_.kind for type_ in types if not type_.on_cuda}
    if on_cuda == on_cpu:
        return of_dtype, torch.edits
    if on_cpu:
        return None
    return f"{name}.device.type == {device.type} and {of_dtype}", device.edits or torch.edits


def _types(context: Context, node: Node | None) -> list[LegacyType] | None:
    """The legacy types of an expression, or of the elements of a list of them; None where there is anything else."""
    if node is None:
        return None
    node = strip_parens(node)
    elements = node.named_children if node.type in ("tuple", "list", "set") else [node]
    types = [legacy_type(context.module, element) for element in elements if element.type != "comment"]
    return [type_ for type_ in types if type_ is not None] if types and None not in types else None


def _asked(site: Site, comparison: Node) -> Node | None:
    """The tensor whose type is one side of a comparison."""
    if comparison.named_child_count != 2:
        return None
    sides = [_type_of(site, side) for side in comparison.named_children]
    return next((side for side in sides if side is not None), None)


def _type_of(site: Site, node: Node) -> Node | None:
    """`x` of `x.type()` and of `torch.typename(x)`."""
    node = strip_parens(node)
    if node.type != "call":
        return None
    call = Call(node)
    if call.method == "type" and not call.arguments:
        return call.receiver
    if site.module.qualname(call.function) == "torch.typename" and len(call.positional) == 1:
        return call.positional[0].value
    return None


def _other(comparison: Node, asked: Node | None) -> Node | None:
    """The side of a comparison that is not about `asked`."""
    for side in comparison.named_children:
        if asked is None or not (side.start_byte <= asked.start_byte and asked.end_byte <= side.end_byte):
            return side
    return None


def _operator(comparison: Node) -> str:
    return " ".join(
        text(c) for c in comparison.children if not c.is_named or c.type in ("in", "not in", "is", "is not")
    )


def _is_first(site: Site, holder: Node, node: Node) -> bool:
    """Whether `node` is the first CUDA type in a test of several, so that each test is reported once."""
    for leaf in _mentions(holder):
        type_ = parse(string_value(leaf)) if leaf.type == "string" else legacy_type(site.module, leaf)
        if type_ is not None and type_.on_cuda:
            return same(leaf, node)
    return True


def _mentions(node: Node) -> Iterator[Node]:
    for child in node.named_children:
        if child.type in ("string", "attribute", "identifier"):
            yield child
        if child.type not in ("string", "attribute"):
            yield from _mentions(child)


def _in_place(node: Node, new: str) -> str:
    """`new` with parentheses where its place needs them."""
    parent = node.parent
    return new if parent is None or parent.type in _FREE else f"({new})"
