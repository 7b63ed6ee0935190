"""Group D, first part: tensors made by, and converted to, the CUDA types of PyTorch before 0.4."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.legacy_argument import Kind, kind
from anydevice.rules.placement import Expression
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.rules.typed import (
    LegacyType,
    Role,
    Written,
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


class LegacyTensorType(PythonRule):
    """`torch.cuda.FloatTensor(...)` makes a tensor on CUDA and raises a TypeError on every other machine.

    What it makes depends on what it is given: sizes make an uninitialised tensor, a list or an array becomes the
    content. Instead: `torch.empty(sizes, dtype=..., device=device)` (or zeros, ones when it is filled at once) and
    `torch.tensor(data, dtype=..., device=device)`. Where the file does not say which of them an argument is,
    `torch.empty(0, dtype=..., device=device).new(x)` is written: the same legacy constructor, on any device.

    References: https://docs.pytorch.org/docs/stable/tensors.html (legacy constructors are discouraged since 0.4)
    """

    code = "ADD01"
    name = "legacy-tensor-type"
    summary = "a tensor is made by the name of a CUDA type"
    anchors = ("cuda",)
    examples = (
        Example(
            "sizes",
            "import torch\nx = torch.cuda.FloatTensor(3, n).normal_()\n",
            "import torch\nx = torch.empty(3, n, dtype=torch.float32, device=device).normal_()\n",
        ),
        Example(
            "a shape, filled at once",
            "import torch\nmask = torch.cuda.ByteTensor(t.size()).zero_()\n",
            "import torch\nmask = torch.zeros(t.size(), dtype=torch.uint8, device=device)\n",
        ),
        Example(
            "filled with another number",
            "import torch\nx = torch.cuda.FloatTensor(t.shape).fill_(eps)\n",
            "import torch\nx = torch.empty(t.shape, dtype=torch.float32, device=device).fill_(eps)\n",
        ),
        Example(
            "a list",
            "import torch\nx = torch.cuda.LongTensor([1, 2])\n",
            "import torch\nx = torch.tensor([1, 2], dtype=torch.int64, device=device)\n",
        ),
        Example(
            "an array",
            "import numpy as np\nimport torch\na = np.ones((2, 3))\nx = torch.cuda.FloatTensor(a)\n",
            "import numpy as np\nimport torch\na = np.ones((2, 3))\n"
            "x = torch.tensor(a, dtype=torch.float32, device=device)\n",
        ),
        Example(
            "a tensor",
            "import torch\nx = torch.cuda.FloatTensor(y.detach())\n",
            "import torch\nx = y.detach().to(device, torch.float32)\n",
        ),
        Example(
            "a size or data",
            "import torch\ndef f(x):\n    return torch.cuda.FloatTensor(x)\n",
            "import torch\ndef f(x):\n    return torch.empty(0, dtype=torch.float32, device=device).new(x)\n",
        ),
        Example(
            "an output",
            "import torch\nn = torch.max(lengths).item()\nids = torch.arange(0, n, out=torch.cuda.LongTensor(n))\n",
            "import torch\nn = torch.max(lengths).item()\n"
            "ids = torch.arange(0, n, out=torch.empty(n, dtype=torch.int64, device=device))\n",
        ),
        Example(
            "nothing",
            "import torch\nx = torch.cuda.FloatTensor()\n",
            "import torch\nx = torch.empty(0, dtype=torch.float32, device=device)\n",
        ),
        Example(
            "on the device of a number",
            "import torch\ndef f(n: int, gpu: int):\n    return torch.cuda.LongTensor(n, device=gpu).fill_(1)\n",
            "import torch\ndef f(n: int, gpu: int):\n"
            "    return torch.ones(n, dtype=torch.int64, device=device_for(gpu))\n",
        ),
        Example(
            "an imported type",
            "import torch\nfrom torch.cuda import HalfTensor\nx = HalfTensor(2, 2)\n",
            "import torch\nfrom torch.cuda import HalfTensor\nx = torch.empty(2, 2, dtype=torch.float16, device=device)\n",
        ),
        Example(
            "a choice between types",
            "import torch\nx = (torch.cuda.FloatTensor if gpu else torch.FloatTensor)(3)\n",
            "import torch\nx = (float_tensor if gpu else torch.FloatTensor)(3)\n",
        ),
        Example(
            "applied to many",
            "import torch\nxs = list(map(torch.cuda.LongTensor, rows))\n",
            "import torch\nxs = list(map(long_tensor, rows))\n",
        ),
        Example(
            "under TorchScript", "import torch\n@torch.jit.script\ndef f(x):\n    return torch.cuda.FloatTensor(3)\n"
        ),
    )
    leaves = (
        Leave("import torch\nx = torch.FloatTensor(3)\n", "a type of the CPU"),
        Leave("import cupy\nx = cupy.cuda.FloatTensor(3)\n", "cupy is not torch"),
        Leave("import torch\nfrom torch.cuda import FloatTensor\n", "an import alone does no harm"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        found = reference(site)
        if found is None or not found[1].dense or site.in_string:
            return
        node, type_ = found
        context, usage = site.context, use(site.module, found[0])
        if usage.role in (Role.CHOSEN, Role.MAPPED):
            function = maker(context, node, type_)
            yield context.finding(
                self,
                node,
                f"`{text(node)}` exists on CUDA only; write `{function.text}`, which makes it on the device",
                Safety.SAFE,
                [site.module.replace(node, function.text), *function.edits],
            )
        elif usage.role is Role.CALLED:
            yield self._made(context, Call(usage.holder), type_)

    def _made(self, context: Context, call: Call, type_: LegacyType) -> Finding:
        here = written(context, call.node)
        said = f"`{text(call.function)}` exists on CUDA only"
        placed = call.keyword("device")
        given = _given(context, call)
        on_input = placed is not None and (len(call.arguments) == 1 or given in (Kind.TENSOR, Kind.UNKNOWN))
        if context.is_scripted(call.node) or on_input:
            factory = f"{here.torch}.empty(..., dtype={here.torch}.{type_.dtype}, device=...)"
            message = (
                f"{said}; write `{factory}` for sizes and `{here.torch}.tensor` for data, on the device of an input"
            )
            return context.finding(self, call.node, message, Safety.MANUAL)
        if placed is not None:
            value = text(placed.value)
            as_it_is = value.endswith(".device")  # of a tensor
            where = Expression(value) if as_it_is else context.placement.indexed(call.node, value)
            here = Written(here.torch, where.text, where.edits)
        if given in (Kind.NUMBER, Kind.SIZE):
            factory, drop = _filled(call)
            edits = self._factory(context, call, f"{here.torch}.{factory}", here.options(type_), drop)
            advice = f"`{here.torch}.{factory}(..., {here.options(type_)})`"
        elif given is Kind.DATA:
            edits = self._factory(context, call, f"{here.torch}.tensor", here.options(type_), None)
            advice = f"`{here.torch}.tensor(..., {here.options(type_)})`"
        elif given is Kind.TENSOR:
            move = f".to({here.device}, {here.torch}.{type_.dtype})"
            edits, advice = _moved(context, call, move), f"`{text(call.positional[0].value)}{move}`"
        else:
            new = here.constructor(type_)
            edits = [context.module.replace(call.function, new)]
            advice = f"`{here.torch}.empty` for sizes, `{here.torch}.tensor` for data, or `{new}(...)` for either"
        return context.finding(self, call.node, f"{said}; write {advice}", Safety.SAFE, [*edits, *here.edits])

    def _factory(self, context: Context, call: Call, factory: str, options: str, drop: Node | None) -> list[Edit]:
        module = context.module
        edits = [module.replace(call.function, factory)]
        placed = call.keyword("device")
        if placed is not None:
            edits.append(module.replace(placed.node, options))
        elif call.arguments:
            offset, addition = call.insertion(options)
            edits.append(module.insert(offset, addition))
        else:
            edits.append(module.insert(call.argument_list.start_byte + 1, f"0, {options}"))
        if drop is not None:
            edits.append(module.edit(call.node.end_byte, drop.end_byte, ""))
        return edits


def _given(context: Context, call: Call) -> Kind:
    """What a constructor is given; several arguments are sizes."""
    module, arguments = context.module, [a for a in call.arguments if a.name != "device"]
    if call.argument_list.type != "argument_list" or any(a.name for a in arguments):
        return Kind.UNKNOWN
    if len(arguments) == 1 and arguments[0].starred:
        return Kind.NUMBER if kind(module, arguments[0].value) is Kind.SIZE else Kind.UNKNOWN
    if len(arguments) != 1:
        return Kind.NUMBER
    return kind(module, arguments[0].value)


def _filled(call: Call) -> tuple[str, Node | None]:
    """(the factory, the call that it makes superfluous) for a tensor that is filled with 0 or 1 at once."""
    attribute = call.node.parent
    outer = attribute.parent if attribute is not None and attribute.type == "attribute" else None
    if outer is None or outer.type != "call" or not same(field(outer, "function"), attribute):
        return "empty", None
    filling = Call(outer)
    values = [text(a.node) for a in filling.arguments]
    if filling.method == "zero_" and not values:
        return "zeros", outer
    if filling.method == "fill_" and values in (["0"], ["0."], ["0.0"]):
        return "zeros", outer
    if filling.method == "fill_" and values in (["1"], ["1."], ["1.0"]):
        return "ones", outer
    return "empty", None


def _moved(context: Context, call: Call, move: str) -> list[Edit]:
    """`torch.cuda.FloatTensor(y)` of a tensor: `y.to(...)`."""
    module, value = context.module, call.positional[0].value
    atom = value.type in ("identifier", "attribute", "call", "subscript", "parenthesized_expression")
    opening, closing = ("", "") if atom else ("(", ")")
    return [
        module.edit(call.node.start_byte, value.start_byte, opening),
        module.edit(value.end_byte, call.node.end_byte, f"{closing}{move}"),
    ]


class LegacyTypeConversion(PythonRule):
    """`x.type(torch.cuda.FloatTensor)` moves a tensor (or a module) to CUDA and casts it; elsewhere it raises.

    Instead: `x.to(device, torch.float32)`. The type may be a string as well, `x.type("torch.cuda.LongTensor")`.

    References: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.type.html
    """

    code = "ADD02"
    name = "legacy-type-conversion"
    summary = "`.type()` of a CUDA type moves to CUDA only"
    anchors = ("cuda",)
    text_anchors = ("cuda",)
    examples = (
        Example(
            "a type",
            "import torch\ny = x.lt(0).type(torch.cuda.FloatTensor) * 2\n",
            "import torch\ny = x.lt(0).to(device, torch.float32) * 2\n",
        ),
        Example(
            "a string",
            'import torch\ny = x.type("torch.cuda.LongTensor")\n',
            "import torch\ny = x.to(device, torch.int64)\n",
        ),
        Example(
            "a choice that follows the machine",
            "import torch\ny = x.type(torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor)\n",
            "import torch\ny = x.to(device, torch.float32)\n",
        ),
        Example(
            "a choice of the user",
            "import torch\ny = x.type(torch.cuda.FloatTensor if args.gpu else torch.FloatTensor)\n",
            'import torch\ny = x.to(device if args.gpu else "cpu", torch.float32)\n',
        ),
        Example(
            "without blocking",
            "import torch\ny = x.type(torch.cuda.HalfTensor, non_blocking=True)\n",
            "import torch\ny = x.to(device, torch.float16, non_blocking=True)\n",
        ),
        Example(
            "a choice between different dtypes",
            "import torch\ny = x.type(torch.cuda.HalfTensor if args.gpu else torch.FloatTensor)\n",
        ),
    )
    leaves = (
        Leave("import torch\ny = x.type(torch.FloatTensor)\n", "a type of the CPU"),
        Leave("import torch\ny = x.type(torch.float32)\n", "a dtype"),
        Leave('print("torch.cuda.FloatTensor")\nnames = {"torch.cuda.FloatTensor": 1}\n', "a text"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        found = reference(site)
        if found is None:
            return
        node, type_ = found
        usage = use(site.module, node)
        if usage.role is not Role.CONVERTS:
            return
        context, call = site.context, Call(usage.holder)
        here = written(context, call.node)
        where = _destination(context, usage.value, type_, here)
        if where is None or call.has_star or context.is_scripted(call.node):
            what = "`.to_sparse()` and `.to(device)`" if type_.sparse else f"`.to(device, {here.torch}.{type_.dtype})`"
            yield context.finding(
                self,
                call.node,
                f"`.type({text(usage.value)})` moves to CUDA only; write {what}, with the device that is meant",
                Safety.MANUAL,
            )
            return
        new = conversion(call, f"{where}, {here.torch}.{type_.dtype}")
        start = field(call.function, "attribute") or call.function
        yield context.finding(
            self,
            call.node,
            f"`.type({text(usage.value)})` moves to CUDA only; write `.{new}`",
            Safety.SAFE,
            [site.module.edit(start.start_byte, call.node.end_byte, new), *here.edits],
        )


def _destination(context: Context, value: Node, type_: LegacyType, here: Written) -> str | None:
    """Where `.type(value)` moves to; None when that cannot be said in one expression."""
    if not type_.dense:
        return None
    leaves, condition = choice(value)
    if condition is None:
        return here.device
    others = [legacy_type(context.module, leaf) for leaf in leaves]
    if len(leaves) != 2 or any(other is None or other.kind != type_.kind for other in others):
        return None
    first, second = (other is not None and other.on_cuda for other in others)
    if first and second:
        return here.device
    if follows_machine(context, condition):
        return here.device
    return (
        f'{here.device} if {text(condition)} else "cpu"' if first else f'"cpu" if {text(condition)} else {here.device}'
    )
