"""Group C, first part: process-wide defaults that put every new tensor on CUDA, and what breaks because of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.rules.typed import LegacyType, Role, choice, follows_machine, legacy_type, reference, use, written
from anydevice.source.calls import Argument, Call
from anydevice.source.syntax import field, first_named, same, statement, text

_ON_CUDA = re.compile(r"\.type\s*==\s*[\"']cuda[\"']")
_SETS_DEFAULT = re.compile(
    rb"set_default_tensor_type\([^)\n]*cuda|set_default_device\((?!\s*(?:None\b|[\"'](?:cpu|meta)[\"']))"
)


class DefaultDeviceGlobal(PythonRule):
    """`torch.set_default_tensor_type("torch.cuda.FloatTensor")` puts every new tensor of the process on CUDA.

    It raises where there is no CUDA, it is deprecated since torch 2.1, and `torch.set_default_device` does not do all that
    it does: `torch.Tensor(n)`, which older libraries make their parameters with, follows the type only. Instead: keep
    it on CUDA, and set the dtype and the device apart elsewhere. Better still, no default, and `device=` where tensors
    are made.

    What draws a random order breaks under such a default, for it draws with a generator on the CPU: a shuffling
    DataLoader, a sampler, `random_split`. They are given a generator on the device of new tensors where that is not the
    CPU, so that whatever runs today draws the same order.

    References: https://docs.pytorch.org/docs/stable/generated/torch.set_default_tensor_type.html,
    https://github.com/pytorch/pytorch/issues/44714
    """

    code = "ADC01"
    name = "default-device-global"
    summary = "new tensors are on CUDA by default"
    anchors = ("cuda", "set_default_tensor_type", "DataLoader", "RandomSampler", "random_split")
    text_anchors = ("cuda",)
    examples = (
        Example(
            "a string",
            'import torch\nif ok:\n    torch.set_default_tensor_type("torch.cuda.FloatTensor")  # faster\nx = 1\n',
            'import torch\nif ok:\n    if device.type == "cuda":\n'
            '        torch.set_default_tensor_type("torch.cuda.FloatTensor")  # faster\n'
            "    else:\n        torch.set_default_dtype(torch.float32)\n        torch.set_default_device(device)\nx = 1\n",
        ),
        Example(
            "a type",
            "import torch\ntorch.set_default_tensor_type(torch.cuda.HalfTensor)\n",
            'import torch\nif device.type == "cuda":\n    torch.set_default_tensor_type(torch.cuda.HalfTensor)\n'
            "else:\n    torch.set_default_dtype(torch.float16)\n    torch.set_default_device(device)\n",
        ),
        Example(
            "a choice of the user",
            "import torch\ntorch.set_default_tensor_type(torch.cuda.FloatTensor if args.gpu else torch.FloatTensor)\n",
            'import torch\nif device.type == "cuda":\n'
            "    torch.set_default_tensor_type(torch.cuda.FloatTensor if args.gpu else torch.FloatTensor)\n"
            "else:\n    torch.set_default_dtype(torch.float32)\n"
            '    torch.set_default_device(device if args.gpu else "cpu")\n',
        ),
        Example(
            "an old torch",
            "import torch\ntorch.set_default_tensor_type(torch.cuda.FloatTensor)\n",
            'import torch\nif device.type == "cuda":\n    torch.set_default_tensor_type(torch.cuda.FloatTensor)\n'
            "else:\n    torch.set_default_tensor_type(torch.FloatTensor)\n",
            torch="1.8",
        ),
        Example(
            "a loader that shuffles",
            "import torch\nfrom torch.utils.data import DataLoader\ntorch.set_default_device(device)\n"
            "loader = DataLoader(data, batch_size=4, shuffle=True)\n",
            "import torch\nfrom torch.utils.data import DataLoader\ntorch.set_default_device(device)\n"
            "loader = DataLoader(data, batch_size=4, shuffle=True, "
            'generator=None if torch.empty(0).device.type == "cpu" else torch.Generator(device=torch.empty(0).device))\n',
        ),
        Example(
            "a random split",
            "import torch\ntorch.set_default_device(device)\na, b = torch.utils.data.random_split(data, [8, 2])\n",
            "import torch\ntorch.set_default_device(device)\na, b = torch.utils.data.random_split(data, [8, 2], "
            "generator=None)\n",
        ),
        Example(
            "back to the CPU",
            "import torch\ndevice = torch.accelerator.current_accelerator()\n"
            'if device.type == "cuda":\n    torch.set_default_tensor_type(torch.cuda.HalfTensor)\n'
            "else:\n    torch.set_default_device(device)\nnet = Net()\ntorch.set_default_tensor_type(torch.FloatTensor)\n",
            "import torch\ndevice = torch.accelerator.current_accelerator()\n"
            'if device.type == "cuda":\n    torch.set_default_tensor_type(torch.cuda.HalfTensor)\n'
            "else:\n    torch.set_default_device(device)\nnet = Net()\ntorch.set_default_tensor_type(torch.FloatTensor)\n"
            'if device.type != "cuda":\n    torch.set_default_device("cpu")\n',
        ),
        Example(
            "through another call", "import torch\nok = torch.set_default_tensor_type(torch.cuda.FloatTensor) or 1\n"
        ),
    )
    leaves = (
        Leave('import torch\ntorch.set_default_tensor_type("torch.FloatTensor")\n', "a type of the CPU"),
        Leave(
            'import torch\nif d.type == "cuda":\n    torch.set_default_tensor_type(torch.cuda.FloatTensor)\n',
            "asks for CUDA first",
        ),
        Leave(
            "from torch.utils.data import DataLoader\nl = DataLoader(data, shuffle=True)\n", "no default is set here"
        ),
        Leave(
            "import torch\nfrom torch.utils.data import DataLoader\ntorch.set_default_device(device)\n"
            "a = DataLoader(data)\nb = DataLoader(data, shuffle=False)\nc = DataLoader(data, shuffle=True, generator=g)\n",
            "in order, or with a generator of its own",
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if not site.in_string and site.word == "set_default_tensor_type":
            yield from self._back(site)
            return
        if not site.in_string and site.word != "cuda":
            yield from self._random_order(site)
            return
        found = reference(site)
        if found is None or use(site.module, found[0]).role is not Role.DEFAULT:
            return
        usage = use(site.module, found[0])
        owner = statement(usage.holder)
        if _asks_for_cuda(owner):
            return
        yield self._default(site.context, Call(usage.holder), usage.value, owner, found[1])

    # -- the default itself ------------------------------------------------------------------------------------

    def _default(self, context: Context, call: Call, value: Node, owner: Node, type_: LegacyType) -> Finding:
        module, device = context.module, context.device(owner)
        message = (
            "every new tensor of the process is put on CUDA; make tensors with `device=`, or set the default dtype and "
            f"the default device (`torch.set_default_device({device.expr})`) where there is no CUDA"
        )
        where = _default_device(context, value, device.expr)
        alone = (
            owner.type == "expression_statement" and same(first_named(owner), call.node) and module.starts_line(owner)
        )
        end = len(module.data[: module.line_end(owner.end_byte - 1)].rstrip(b"\r\n"))
        rest = module.data[owner.end_byte : end].strip()
        if where is None or not alone or (rest and not rest.startswith(b"#")):
            return context.finding(self, call.node, message, Safety.MANUAL)
        here, outer = written(context, owner), module.indent(owner)
        inner = outer + module.indent_unit
        otherwise = [
            f"{here.torch}.set_default_dtype({here.torch}.{type_.dtype})",
            f"{here.torch}.set_default_device({where})",
        ]
        if not context.target.has("torch.set_default_device"):
            otherwise = [f"{here.torch}.set_default_tensor_type({here.torch}.{type_.spelling})"]
        edits = [
            # no insertion: the definition of the device may be inserted at the same place
            module.replace(call.function, f'if {device.type} == "cuda":\n{inner}{text(call.function)}'),
            module.insert(end, f"\n{outer}else:\n" + "\n".join(inner + line for line in otherwise)),
        ]
        return context.finding(self, call.node, message, Safety.SAFE, [*edits, *here.edits])

    def _back(self, site: Site) -> Iterator[Finding]:
        """A type of the CPU takes back the default type of CUDA, but not the default device that stands in for it."""
        context, module, call = site.context, site.module, site.call
        if call is None or site.qualname != "torch.set_default_tensor_type" or not _SETS_DEFAULT.search(module.data):
            return
        owner = statement(call.node)
        value = call.argument(0, "t")
        type_ = legacy_type(module, value.value) if value is not None else None
        alone = owner.type == "expression_statement" and same(first_named(owner), call.node)
        if type_ is None or type_.on_cuda or not alone or not _takes_back(owner):
            return
        if not context.target.has("torch.set_default_device"):
            return
        device, here, outer = context.device(owner), written(context, owner), module.indent(owner)
        end = len(module.data[: module.line_end(owner.end_byte - 1)].rstrip(b"\r\n"))
        reset = f'if {device.type} != "cuda":\n{outer}{module.indent_unit}{here.torch}.set_default_device("cpu")'
        edits = [module.insert(end, f"\n{outer}{reset}"), *device.edits, *here.edits]
        message = "the default device that stands in for the type on CUDA is left in force; write it back too"
        yield context.finding(self, call.node, message, Safety.SAFE, edits)

    # -- what breaks because of it -----------------------------------------------------------------------------

    def _random_order(self, site: Site) -> Iterator[Finding]:
        call = site.call
        if call is None or not _SETS_DEFAULT.search(site.module.data) or not _draws(site, call):
            return
        context = site.context
        torch = context.placement.torch_name(call.node)
        home = f"{torch.text}.empty(0).device"  # torch.get_default_device() does not know of the default type
        if site.word == "random_split":
            generator = "generator=None"  # the default generator of whatever device the order is drawn on
        else:
            generator = f'generator=None if {home}.type == "cpu" else {torch.text}.Generator(device={home})'
        offset, addition = call.insertion(generator)
        edits: list[Edit] = [site.module.insert(offset, addition), *torch.edits]
        yield context.finding(
            self,
            call.node,
            "the order is drawn with a generator on the CPU, which fails while new tensors are elsewhere by default; give "
            f"it `{generator}`, or drop the default",
            Safety.MANUAL if call.has_star else Safety.SAFE,
            edits,
        )


def _asks_for_cuda(owner: Node) -> bool:
    """Whether a statement runs only where the device is CUDA, by the `if` around it."""
    block = owner.parent
    guard = block.parent if block is not None else None
    if block is None or guard is None or guard.type not in ("if_statement", "elif_clause"):
        return False
    condition = field(guard, "condition")
    return condition is not None and bool(_ON_CUDA.search(text(condition))) and same(field(guard, "consequence"), block)


def _takes_back(owner: Node) -> bool:
    """Whether a default on CUDA is set before `owner`, in its own block, and the device is not taken back after it."""
    after = owner.next_named_sibling
    if after is not None and "set_default_device(" in text(after):
        return False
    before = owner.prev_named_sibling
    while before is not None:
        if before.type not in ("function_definition", "class_definition", "decorated_definition"):
            found = _SETS_DEFAULT.findall(text(before).encode())
            if any(b"set_default_device" in one for one in found):
                return True
        before = before.prev_named_sibling
    return False


def _default_device(context: Context, value: Node, device: str) -> str | None:
    """The default device where the device is not CUDA."""
    leaves, condition = choice(value)
    if condition is None:
        return device
    types = [legacy_type(context.module, leaf) for leaf in leaves]
    known = [type_ for type_ in types if type_ is not None]
    if len(known) != 2 or len(types) != 2 or known[0].kind != known[1].kind:
        return None
    if (known[0].on_cuda and known[1].on_cuda) or follows_machine(context, condition):
        return device
    return (
        f'{device} if {text(condition)} else "cpu"' if known[0].on_cuda else f'"cpu" if {text(condition)} else {device}'
    )


def _draws(site: Site, call: Call) -> bool:
    """Whether a call of torch.utils.data draws an order without a generator of its own."""
    if not (site.qualname or "").startswith("torch.utils.data."):
        return False
    if site.word == "random_split":
        return call.argument(2, "generator") is None
    if site.word == "RandomSampler":
        return call.argument(3, "generator") is None
    shuffle = call.argument(2, "shuffle")
    others = ("generator", "sampler", "batch_sampler")
    return shuffle is not None and not _is_false(shuffle) and call.keyword(*others) is None


def _is_false(argument: Argument) -> bool:
    return text(argument.value) in ("False", "None", "0")
