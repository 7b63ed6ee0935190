"""Group D, second part: CUDA types that are given a name, and used through it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.rules.type_uses import Uses, target_of, uses_of
from anydevice.rules.typed import (
    LegacyType,
    Role,
    choice,
    conversion,
    follows_machine,
    legacy_type,
    maker,
    reference,
    use,
    written,
)
from anydevice.source.calls import Call
from anydevice.source.syntax import field, same, text

_CONSTRUCTOR = re.compile(r"tensor", re.IGNORECASE)  # how people call a type that makes tensors


class LegacyTypeName(PythonRule):
    """`dtype = torch.cuda.FloatTensor` and `Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor` hide the
    device in a name, which later makes tensors, `Tensor(n, 1)`, or moves them, `x.type(dtype)`.

    Instead: a name that is only given to `.type()` becomes the dtype, and `.type(dtype)` becomes `.to(device, dtype)`. A
    name that makes tensors becomes a function that does so on the device; `x.type(Tensor)` then becomes `x.to(Tensor())`,
    which moves to where such a tensor would be.
    """

    code = "ADD03"
    name = "legacy-type-name"
    summary = "a CUDA type gets a name, and is used through it"
    anchors = ("cuda",)
    text_anchors = ("cuda",)
    examples = (
        Example(
            "a name for .type()",
            "import torch\ndtype = torch.cuda.FloatTensor\nnet = net.type(dtype)\nx = x.type(dtype).detach()\n",
            "import torch\ndtype = torch.float32\nnet = net.to(device, dtype)\nx = x.to(device, dtype).detach()\n",
        ),
        Example(
            "a choice that follows the machine",
            "import torch\ndtype = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor\nx = x.type(dtype)\n",
            "import torch\ndtype = torch.float32\nx = x.to(device, dtype)\n",
        ),
        Example(
            "a string",
            "import torch\ndtype = 'torch.cuda.LongTensor'\nx = x.type(dtype)\n",
            "import torch\ndtype = torch.int64\nx = x.to(device, dtype)\n",
        ),
        Example(
            "a constructor",
            "import torch\nTensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor\n"
            "valid = Tensor(n, 1).fill_(1.0)\nimgs = imgs.type(Tensor)\n",
            "import torch\nTensor = float_tensor if cuda else torch.FloatTensor\n"
            "valid = Tensor(n, 1).fill_(1.0)\nimgs = imgs.to(Tensor())\n",
        ),
        Example(
            "branches",
            "import torch\nif use_cuda:\n    dtype = torch.cuda.LongTensor\nelse:\n    dtype = torch.LongTensor\nx = x.type(dtype)\n",
            "import torch\nif use_cuda:\n    dtype = long_tensor\nelse:\n    dtype = torch.LongTensor\nx = x.to(dtype())\n",
        ),
        Example(
            "an attribute",
            "import torch\nclass A:\n    def __init__(self, gpus):\n"
            "        self.Tensor = torch.cuda.FloatTensor if gpus else torch.Tensor\n",
            "import torch\nclass A:\n    def __init__(self, gpus):\n"
            "        self.Tensor = float_tensor if gpus else torch.Tensor\n",
        ),
        Example(
            "an attribute of the class",
            "import torch\nclass A:\n    Tensor = torch.cuda.FloatTensor\n",
            "import torch\nclass A:\n    Tensor = staticmethod(float_tensor)\n",
        ),
        Example(
            "several at once",
            "import torch\nFloatTensor, count = torch.cuda.FloatTensor, 1\nx = FloatTensor(3)\n",
            "import torch\nFloatTensor, count = float_tensor, 1\nx = FloatTensor(3)\n",
        ),
        Example(
            "a name of a name",
            "import torch\nFloatTensor = torch.cuda.FloatTensor if gpu else torch.FloatTensor\nTensor = FloatTensor\nx = Tensor(3)\n",
            "import torch\nFloatTensor = float_tensor if gpu else torch.FloatTensor\nTensor = FloatTensor\nx = Tensor(3)\n",
        ),
        Example(
            "handed to a function of the file",
            "import torch\ndtype = torch.cuda.FloatTensor\ndef f(x, t):\n    return x.type(t)\ny = f(x, dtype)\n",
            "import torch\ndtype = float_tensor\ndef f(x, t):\n    return x.to(t())\ny = f(x, dtype)\n",
        ),
        Example(
            "the default of a parameter",
            "import torch\ndef f(n, Tensor=torch.cuda.FloatTensor):\n    return Tensor(n)\n",
            "import torch\ndef f(n, Tensor=float_tensor):\n    return Tensor(n)\n",
        ),
        Example(
            "strings in branches",
            "import torch\nif gpu:\n    t = 'torch.cuda.LongTensor'\nelse:\n    t = 'torch.LongTensor'\nx = x.type(t)\n",
            "import torch\nif gpu:\n    t = long_tensor\nelse:\n    t = torch.LongTensor\nx = x.to(t())\n",
        ),
        Example(
            "beside a dtype", "import torch\nt = torch.cuda.FloatTensor if gpu else torch.float32\nx = x.type(t)\n"
        ),
        Example("handed to code elsewhere", "import torch\ndtype = torch.cuda.FloatTensor\nx = load(dtype)\n"),
        Example("compared with", "import torch\nT = torch.cuda.FloatTensor\nok = isinstance(x, T)\n"),
    )
    leaves = (
        Leave("import torch\nTensor = torch.FloatTensor\nx = Tensor(3)\n", "a type of the CPU"),
        Leave("label = 'torch.cuda.FloatTensor'\nprint(label)\n", "a text"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        found = reference(site)
        if found is None or not found[1].dense:
            return
        node, type_ = found
        usage = use(site.module, node)
        if usage.role not in (Role.NAMED, Role.PARAMETER):
            return
        context = site.context
        target = target_of(usage.holder, usage.value)
        uses = uses_of(context.module, target) if target is not None else Uses(passed=[node])
        if site.in_string and (not uses.converted or uses.made or uses.passed):
            return
        name = text(target) if target is not None else ""
        if target is not None and self._is_only_a_dtype(context, usage.role, target, uses):
            yield self._as_dtype(context, node, target, uses)
        elif (
            uses.tested
            or not self._makes(name, uses)
            or not self._is_only_string(context, target, site.in_string)
            or (uses.converted and target is not None and not _are_types(context, usage.role, target))
        ):
            yield context.finding(
                self,
                node,
                f"`{text(node)}` exists on CUDA only; keep the dtype, `{type_.dtype}`, and the device under two "
                f"names, and write `.to(device, dtype)` for `.type({name or '...'})`",
                Safety.MANUAL,
            )
        else:
            yield self._as_function(context, usage.role, node, type_, target, uses)

    # -- decisions ---------------------------------------------------------------------------------------------

    def _is_only_a_dtype(self, context: Context, role: Role, target: Node, uses: Uses) -> bool:
        """Whether the name is given to `.type()` and nothing else, and means the same device whatever was chosen."""
        if role is Role.PARAMETER or not uses.converted or uses.made or uses.tested or uses.passed or uses.followed:
            return False
        return all(value is not None and _follows_machine(context, value) for value in _values(context, target))

    def _makes(self, name: str, uses: Uses) -> bool:
        """Whether the name may become a function that makes tensors."""
        return bool(uses.made) or bool(_CONSTRUCTOR.search(name)) or (bool(uses.converted) and not uses.passed)

    def _is_only_string(self, context: Context, target: Node | None, in_string: bool) -> bool:
        """Whether, if the type is a string, it is the only CUDA type of the name: the others become types as well."""
        if not in_string:
            return True
        values = _values(context, target) if target is not None else [None]
        leaves = [leaf for value in values if value is not None for leaf in choice(value)[0]]
        types = [legacy_type(context.module, leaf) for leaf in leaves]
        return (
            None not in values
            and None not in types
            and sum(type_ is not None and type_.on_cuda for type_ in types) == 1
        )

    # -- edits -------------------------------------------------------------------------------------------------

    def _as_dtype(self, context: Context, node: Node, target: Node, uses: Uses) -> Finding:
        edits: list[Edit] = []
        for value in _values(context, target):
            if value is not None:
                edits += _dtypes(context, value)
        for call in uses.converted:
            here = written(context, call.node)
            edits += [_converted(context, call, f"{here.device}, {text(call.arguments[0].value)}"), *here.edits]
        message = f"`{text(target)}` moves to CUDA only; make it a dtype and write `.to(device, {text(target)})` for `.type(...)`"
        return context.finding(self, node, message, Safety.SAFE, edits)

    def _as_function(
        self, context: Context, role: Role, node: Node, type_: LegacyType, target: Node | None, uses: Uses
    ) -> Finding:
        name = text(target) if target is not None else ""
        function = maker(context, node, type_)
        in_class = role is Role.NAMED and context.module.class_scope(node) is not None
        new = f"staticmethod({function.text})" if in_class else function.text
        edits = [context.module.replace(node, new), *function.edits]
        edits += [_converted(context, call, f"{text(call.arguments[0].value)}()") for call in uses.converted]
        if node.type == "string":
            edits += _types_of_strings(context, target)
        last = name.rpartition(".")[2]
        elsewhere = last in context.facts.converting_types and not uses.converted
        unseen = bool(uses.passed) and not uses.made
        open_ = role is Role.PARAMETER and bool(uses.converted)  # a caller may give a dtype
        message = f"`{text(node)}` exists on CUDA only; write `{new}`, a function that makes such tensors on the device"
        if uses.converted:
            message += f", and `.to({name}())` for `.type({name})`"
        safety = Safety.UNSAFE if elsewhere or unseen or open_ else Safety.SAFE
        return context.finding(self, node, message, safety, edits)


def _values(context: Context, target: Node) -> list[Node | None]:
    """Everything that is assigned to the name; None for what is bound in another way."""
    if target.type == "identifier":
        return [b.value if b.kind == "assignment" else None for b in context.module.names.lookup(target)]
    name = field(target, "attribute")
    found: list[Node | None] = []
    for leaf in context.module.names.occurrences(text(name)) if name is not None else ():
        owner = leaf.parent
        holder = owner.parent if owner is not None else None
        if (
            owner is not None
            and holder is not None
            and holder.type == "assignment"
            and same(field(holder, "left"), owner)
        ):
            found.append(field(holder, "right"))
    return found


def _are_types(context: Context, role: Role, target: Node) -> bool:
    """Whether every value of the name is a legacy type, and so can be called."""
    values = [] if role is Role.PARAMETER else _values(context, target)
    leaves = [leaf for value in values for leaf in (choice(value)[0] if value is not None else [None])]
    return all(leaf is not None and _is_callable(context, leaf) for leaf in leaves)


def _is_callable(context: Context, leaf: Node) -> bool:
    if leaf.type == "boolean_operator":  # gpu and torch.cuda.FloatTensor or torch.FloatTensor
        return any(_is_callable(context, side) for side in leaf.named_children)
    if legacy_type(context.module, leaf) is not None:
        return True
    # what an earlier pass made of one of the types
    return leaf.type == "identifier" and text(leaf).endswith("_tensor")


def _follows_machine(context: Context, value: Node) -> bool:
    """Whether `value` is a CUDA type, or one and its CPU twin as the machine has it."""
    leaves, condition = choice(value)
    types = [legacy_type(context.module, leaf) for leaf in leaves]
    if any(type_ is None or not type_.dense for type_ in types):
        return False
    if condition is None or all(type_ is not None and type_.on_cuda for type_ in types):
        return all(type_ is not None and type_.on_cuda for type_ in types)
    same_kind = len({type_.kind for type_ in types if type_ is not None}) == 1
    return len(leaves) == 2 and same_kind and follows_machine(context, condition)


def _dtypes(context: Context, value: Node) -> list[Edit]:
    """Edits that make dtypes of the types in `value`."""
    leaves, condition = choice(value)
    torch = context.placement.torch_name(value)
    types = [legacy_type(context.module, leaf) for leaf in leaves]
    if condition is not None and any(type_ is not None and not type_.on_cuda for type_ in types):
        kind = next(type_ for type_ in types if type_ is not None)
        return [context.module.replace(value, f"{torch.text}.{kind.dtype}")]
    return [
        context.module.replace(leaf, f"{torch.text}.{type_.dtype}")
        for leaf, type_ in zip(leaves, types, strict=True)
        if type_ is not None
    ]


def _types_of_strings(context: Context, target: Node | None) -> list[Edit]:
    """Edits that make types of the names of CPU types beside the CUDA type."""
    torch = context.placement.torch_name(target).text if target is not None else "torch"
    values = _values(context, target) if target is not None else []
    leaves = [leaf for value in values if value is not None for leaf in choice(value)[0] if leaf.type == "string"]
    types = [(leaf, legacy_type(context.module, leaf)) for leaf in leaves]
    return [
        context.module.replace(leaf, f"{torch}.{t.spelling}") for leaf, t in types if t is not None and not t.on_cuda
    ]


def _converted(context: Context, call: Call, arguments: str) -> Edit:
    start = field(call.function, "attribute") or call.function
    return context.module.edit(start.start_byte, call.node.end_byte, conversion(call, arguments))
