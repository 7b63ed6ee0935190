"""Group L, first part: one process that drives several devices (nn.DataParallel and what lies under it)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.cuda_calls import is_free
from anydevice.rules.guards import needs_cuda
from anydevice.rules.placement import Expression
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, field, first_named, same, statement, text

# Where torch cannot split a batch: `torch._C._scatter` is part of CUDA builds only (pytorch#143239 for xpu, #142448 for mps).
WHOLE = '("cpu", "mps", "xpu")'
_SELF_RETURNING = frozenset(
    {
        "cuda",
        "to",
        "cpu",
        "train",
        "eval",
        "half",
        "float",
        "double",
        "bfloat16",
        "requires_grad_",
        "share_memory",
        "apply",
    }
)
_PARALLEL = re.compile(
    r"(?:torch\.)?nn\.(?:parallel\.)?(?:data_parallel\.)?DataParallel\Z|(?:.*\.)?DataParallelWithCallback\Z"
)
_MOVED = r"(?:\.\w+\(\))*\.to\(\s*(?:device\s*=\s*)?((?:self\.|args\.|opt\.|cfg\.|config\.)?\w*dev(?:ice)?)\s*[,)]"


def conditional(context: Context, node: Node, condition: str, otherwise: str) -> list[Edit]:
    """Edits that keep `node` where `condition` holds, and give `otherwise` elsewhere."""
    start, end = ("", "") if is_free(node) else ("(", ")")
    edits = [context.module.insert(node.end_byte, f" if {condition} else {otherwise}{end}")]
    return [context.module.insert(node.start_byte, start), *edits] if start else edits


class DataParallelUnguarded(PythonRule):
    """`nn.DataParallel` splits batches over CUDA devices; on an Intel GPU (xpu) its first call fails, and on a machine
    with GPUs it fails for a model that was sent to the CPU.

    On the CPU and on a Mac the wrapper is just the module already, `.module` and the names in its state dict included.
    Instead: make it so everywhere else too, with `model.device_ids = []` after wrapping (what torch itself sets there),
    or use DistributedDataParallel.

    References: https://github.com/pytorch/pytorch/issues/143239, torch/nn/parallel/data_parallel.py
    """

    code = "ADL01"
    name = "data-parallel-unguarded"
    summary = "nn.DataParallel works on CUDA devices only"
    anchors = ("DataParallel", "DataParallelWithCallback")
    examples = (
        Example(
            "a model",
            "import torch\nmodel = torch.nn.DataParallel(model)  # all of them\n",
            "import torch\nmodel = torch.nn.DataParallel(model)  # all of them\n"
            'if device.type == "xpu":\n    model.device_ids = []\n',
        ),
        Example(
            "moved afterwards",
            "import torch\nfrom torch import nn\ndef load(device):\n    m = nn.DataParallel(f())\n    return m.to(device).eval()\n",
            "import torch\nfrom torch import nn\ndef load(device):\n    m = nn.DataParallel(f())\n"
            '    if torch.device(device).type in ("cpu", "mps", "xpu"):\n        m.device_ids = []\n    return m.to(device).eval()\n',
        ),
        Example(
            "the idiom of GAN repositories",
            "import torch\nif len(gpu_ids) > 0:\n    self.net = torch.nn.DataParallel(self.net, gpu_ids).cuda()\n",
            "import torch\nif len(gpu_ids) > 0:\n    self.net = torch.nn.DataParallel(self.net, gpu_ids).cuda()\n"
            '    if device.type == "xpu":\n        self.net.device_ids = []\n',
        ),
        Example(
            "returned",
            "import torch\nfrom torch.nn import DataParallel\ndef f(net):\n    return DataParallel(net, device_ids=[0, 1])\n",
            "import torch\nfrom torch.nn import DataParallel\ndef f(net):\n    wrapped = DataParallel(net, device_ids=[0, 1])\n"
            '    if device.type == "xpu":\n        wrapped.device_ids = []\n    return wrapped\n',
        ),
        Example(
            "on one line",
            "import torch\nif many: net = torch.nn.DataParallel(net)\n",
            "import torch\nif many: net = torch.nn.DataParallel(net); "
            'net.device_ids = [] if device.type == "xpu" else net.device_ids\n',
        ),
        Example(
            "among others", "import torch\nnets = [torch.nn.DataParallel(n) for n in nets]\nsave(nets[0].module)\n"
        ),
        Example(
            "among others, never unwrapped",
            "import torch\nfit(torch.nn.DataParallel(net), data)\n",
            'import torch\nfit(torch.nn.DataParallel(net) if device.type != "xpu" else net, data)\n',
        ),
    )
    leaves = (
        Leave(
            "import torch\nif torch.cuda.device_count() > 1:\n    m = torch.nn.DataParallel(m)\n",
            "only where there is CUDA",
        ),
        Leave("import torch\nm = torch.nn.DataParallel(m)\nif a:\n    m.device_ids = []\n", "settled already"),
        Leave("import torch\nif isinstance(m, torch.nn.DataParallel):\n    m = m.module\n", "a question"),
        Leave("import torch\nfrom mine import DataParallel\nm = DataParallel(m)\n", "a class of one's own"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.call
        if call is None or site.is_import or not _PARALLEL.match(site.qualname or text(site.reference)):
            return
        context = site.context
        if needs_cuda(context, call.node) or not call.arguments:
            return
        value = _chained(call.node)
        owner, target = statement(call.node), _target(value)
        if target is None and owner.type == "return_statement" and same(first_named(owner), value):
            yield self._returned(site, call, owner, value)
        elif target is None:
            yield from self._inline(site, call)
        elif not _is_settled(context, owner, target):
            condition = _whole(context, owner, value, target)
            yield context.finding(
                self,
                call.node,
                f"splits batches over CUDA devices and fails on other GPUs; after it, write `if {condition.text}: "
                f"{target}.device_ids = []`, which leaves a wrapper that just calls the module",
                Safety.SAFE,
                [*_settling(context, owner, target, condition.text), *condition.edits],
            )

    def _returned(self, site: Site, call: Call, owner: Node, value: Node) -> Finding:
        context, module = site.context, site.module
        name = next((n for n in ("wrapped", "parallel") if module.names.is_free(n)), "_wrapped")
        condition = _whole(context, owner, value, name)
        keyword = owner.child(0)
        edits = list(condition.edits)
        plain = module.starts_line(owner) and keyword is not None
        if plain and keyword is not None:
            inner = module.indent(owner) + module.indent_unit
            lines = ["", f"if {condition.text}:", f"{module.indent_unit}{name}.device_ids = []", f"return {name}"]
            edits += [
                module.replace(keyword, f"{name} ="),
                module.insert(_line_end(context, owner), f"\n{inner[: len(module.indent(owner))]}".join(lines)),
            ]
        return context.finding(
            self,
            call.node,
            f"splits batches over CUDA devices and fails on other GPUs; set `.device_ids = []` on it "
            f"where `{condition.text}`",
            Safety.SAFE if plain else Safety.MANUAL,
            edits,
        )

    def _inline(self, site: Site, call: Call) -> Iterator[Finding]:
        context = site.context
        if context.module.data[call.node.end_byte : call.node.end_byte + 5].startswith(b" if "):
            return
        wrapped = call.argument(0, "module")
        device = context.device(call.node)
        unwrapped = (
            b".module" in site.module.data or b"state_dict" in site.module.data or wrapped is None or wrapped.starred
        )
        condition = f'{device.type} != "xpu"'
        inner = text(wrapped.value) if wrapped is not None else "model"
        yield context.finding(
            self,
            call.node,
            f"splits batches over CUDA devices and fails on other GPUs; give it a name and set `.device_ids = []` on it where "
            f"`{device.type}` is not cuda, or wrap `{inner}` only where `{condition}`",
            Safety.MANUAL if unwrapped else Safety.UNSAFE,
            [*conditional(context, call.node, condition, inner), *device.edits],
        )


def _chained(node: Node) -> Node:
    """The whole of `DataParallel(m).to(device).eval()`."""
    while True:
        parent = node.parent
        if parent is not None and parent.type == "parenthesized_expression":
            node = parent
            continue
        outer = (
            parent.parent
            if parent is not None and parent.type == "attribute" and same(field(parent, "object"), node)
            else None
        )
        if outer is None or outer.type != "call" or Call(outer).method not in _SELF_RETURNING:
            return node
        node = outer


def _target(value: Node) -> str | None:
    """The name that `value` is bound to, if it is bound to one."""
    parent: Node | None = value.parent
    target: Node | None
    if parent is not None and parent.type in ("expression_list", "tuple"):
        index = next(i for i, child in enumerate(parent.named_children) if same(child, value))
        count, parent = parent.named_child_count, parent.parent
        left = field(parent, "left") if parent is not None and parent.type == "assignment" else None
        if left is None or left.named_child_count != count or left.type not in ("pattern_list", "tuple_pattern"):
            return None
        target = left.named_child(index)
    else:
        if parent is None or parent.type != "assignment" or not same(field(parent, "right"), value):
            return None
        target = field(parent, "left")
    if target is None or target.type not in ("identifier", "attribute", "subscript"):
        return None
    return text(target)


def _is_settled(context: Context, owner: Node, target: str) -> bool:
    """Whether something after the wrapping sets `device_ids`."""
    block = owner.parent
    end = block.end_byte if block is not None else owner.end_byte
    return (
        re.search(re.escape(target).encode() + rb"\.device_ids\s*=[^=]", context.module.data[owner.end_byte : end])
        is not None
    )


def _whole(context: Context, owner: Node, value: Node, target: str) -> Expression:
    """A condition for: the batch cannot be split. It may name the CPU where the wrapper is sent to a device afterwards."""
    function = context.module.function(owner) or context.module.root
    device = context.device(owner)
    rest = context.module.data[owner.end_byte : function.end_byte].decode("utf-8", "replace")
    match = re.search(_MOVED + r"\Z", text(value)) or re.search(rf"(?<![\w.]){re.escape(target)}" + _MOVED, rest)
    if match is None:
        return Expression(f'{device.type} == "xpu"', device.edits)
    moved = match.group(1)
    if moved == device.expr:
        return Expression(f"{device.type} in {WHOLE}", device.edits)
    if not _is_known_before(context, owner, moved):
        return Expression(f'{device.type} == "xpu"', device.edits)
    torch = context.placement.torch_name(owner)
    return Expression(f"{torch.text}.device({moved}).type in {WHOLE}", torch.edits)


def _is_known_before(context: Context, owner: Node, name: str) -> bool:
    root = name.partition(".")[0]
    scopes = {a.id for a in ancestors(owner)}
    bindings = [b for b in context.module.names.bindings(root) if b.scope.id in scopes]
    return bool(bindings) and all(
        b.node.start_byte < owner.start_byte and not (b.value is not None and b.value.type == "none") for b in bindings
    )


def _settling(context: Context, owner: Node, target: str, condition: str) -> list[Edit]:
    module = context.module
    end = _line_end(context, owner)
    rest = module.data[owner.end_byte : end].strip()
    if not module.starts_line(owner) or (rest and not rest.startswith(b"#")):
        addition = f"; {target}.device_ids = [] if {condition} else {target}.device_ids"
        return [module.insert(owner.end_byte, addition)]
    indent = module.indent(owner)
    return [module.insert(end, f"\n{indent}if {condition}:\n{indent}{module.indent_unit}{target}.device_ids = []")]


def _line_end(context: Context, node: Node) -> int:
    """The end of the line on which `node` ends, without its line break."""
    data = context.module.data
    end = context.module.line_end(node.end_byte - 1)
    while end > node.end_byte and data[end - 1 : end] in (b"\n", b"\r"):
        end -= 1
    return end
