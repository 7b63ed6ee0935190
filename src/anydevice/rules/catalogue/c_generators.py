"""Group C, second part: random numbers drawn on one device by a generator that lives on another."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Call
from anydevice.source.syntax import field, same, string_value, text

_FACTORIES = frozenset({"torch.rand", "torch.randn", "torch.randint", "torch.randperm", "torch.normal"})
_CPU = frozenset({"cpu", ""})


class GeneratorWithoutDevice(PythonRule):
    """`torch.randn(n, generator=torch.Generator(), device=device)` draws on the device with a generator of the CPU, and
    raises wherever the device is not the CPU.

    Instead: draw on the CPU and move, `torch.randn(n, generator=g).to(device)`: the numbers are then the same on every
    device. A generator made for the device is right too, but its numbers differ between kinds of devices. The other way
    round, a generator on the device and a factory without `device=`, the factory is given the generator's device.

    References: https://docs.pytorch.org/docs/stable/generated/torch.Generator.html
    """

    code = "ADC02"
    name = "generator-without-device"
    summary = "the generator and the numbers drawn are on different devices"
    anchors = ("generator",)
    needs = (r"Generator\(",)
    examples = (
        Example(
            "a name",
            "import torch\ng = torch.Generator()\nx = torch.randn(2, 3, generator=g, device=device, dtype=t)\n",
            "import torch\ng = torch.Generator()\nx = torch.randn(2, 3, generator=g, dtype=t).to(device)\n",
        ),
        Example(
            "seeded at once",
            "import torch\ng = torch.Generator(device='cpu').manual_seed(0)\nx = torch.rand(2, device=x.device, generator=g)\n",
            "import torch\ng = torch.Generator(device='cpu').manual_seed(0)\nx = torch.rand(2, generator=g).to(x.device)\n",
        ),
        Example(
            "an attribute",
            "import torch\nclass A:\n    def __init__(self):\n        self.rng = torch.Generator()\n\n"
            "    def draw(self, d):\n        return torch.randperm(9, generator=self.rng, device=d)\n",
            "import torch\nclass A:\n    def __init__(self):\n        self.rng = torch.Generator()\n\n"
            "    def draw(self, d):\n        return torch.randperm(9, generator=self.rng).to(d)\n",
        ),
        Example(
            "a generator on the device",
            "import torch\ng = torch.Generator(device=device)\nx = torch.rand(2, generator=g)\n",
            "import torch\ng = torch.Generator(device=device)\nx = torch.rand(2, generator=g, device=g.device)\n",
        ),
        Example(
            "a leaf of the graph",
            "import torch\ng = torch.Generator()\nx = torch.rand(2, generator=g, device=device, requires_grad=True)\n",
        ),
    )
    leaves = (
        Leave("import torch\ng = torch.Generator()\nx = torch.rand(2, generator=g)\n", "both on the CPU"),
        Leave("import torch\ng = torch.Generator()\nx = torch.rand(2, generator=g, device='cpu')\n", "both on the CPU"),
        Leave("import torch\ng = torch.Generator(d)\nx = torch.rand(2, generator=g, device=d)\n", "both on the device"),
        Leave("import torch\ndef f(g, d):\n    return torch.rand(2, generator=g, device=d)\n", "made elsewhere"),
        Leave("import torch\ntrain(generator=net, device=device)\n", "another kind of generator"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        argument = site.keyword
        arguments = argument.node.parent if argument is not None else None
        node = arguments.parent if arguments is not None else None
        if argument is None or node is None or node.type != "call":
            return
        call = Call(node)
        if site.module.qualname(call.function) not in _FACTORIES or call.has_star:
            return
        home = _device_of(site.context, argument.value)
        device = call.keyword("device")
        if home is None:
            return
        if home in _CPU and device is not None and string_value(device.value) != "cpu":
            yield self._on_cpu(site.context, call, argument.value, device.value)
        elif home not in _CPU and device is None and argument.value.type in ("identifier", "attribute"):
            generator = text(argument.value)
            offset, addition = call.insertion(f"device={generator}.device")
            yield site.context.finding(
                self,
                call.node,
                f"`{generator}` is on another device than the numbers; write `device={generator}.device`",
                Safety.SAFE,
                [site.module.insert(offset, addition)],
            )

    def _on_cpu(self, context: Context, call: Call, generator: Node, device: Node) -> Finding:
        module, keyword = context.module, call.keyword("device")
        bound = call.keyword("requires_grad", "out", "pin_memory") is not None
        message = (
            f"`{text(generator)}` is on the CPU and cannot draw numbers elsewhere; draw them there and write "
            f"`.to({text(device)})` behind, which gives the same numbers on every device"
        )
        if keyword is None or bound or context.is_scripted(call.node):
            return context.finding(self, call.node, message, Safety.MANUAL)
        start, end = call.removal(keyword)
        edits = [module.edit(start, end, ""), module.insert(call.node.end_byte, f".to({text(device)})")]
        return context.finding(self, call.node, message, Safety.SAFE, edits)


def _device_of(context: Context, generator: Node) -> str | None:
    """The source of the device of a generator, empty for the default; None when it is not known."""
    homes = {_made_on(context, value) for value in _values(context, generator)}
    return homes.pop() if len(homes) == 1 else None


def _values(context: Context, node: Node) -> list[Node | None]:
    """What a name or an attribute is bound to in this file; a call is its own value."""
    if node.type == "identifier":
        return [b.value if b.kind == "assignment" else None for b in context.module.names.lookup(node)]
    if node.type != "attribute":
        return [node]
    name = field(node, "attribute")
    found: list[Node | None] = []
    for leaf in context.module.names.occurrences(text(name)) if name is not None else ():
        owner = leaf.parent
        holder = owner.parent if owner is not None and text(owner) == text(node) else None
        if holder is not None and holder.type == "assignment" and same(field(holder, "left"), owner):
            found.append(field(holder, "right"))
    return found


def _made_on(context: Context, value: Node | None) -> str | None:
    """The device that `torch.Generator(...)` is made for."""
    if value is None or value.type != "call":
        return None
    call = Call(value)
    if call.method == "manual_seed" and call.receiver is not None:
        return _made_on(context, call.receiver)
    if context.module.qualname(call.function) != "torch.Generator" or call.has_star:
        return None
    device = call.argument(0, "device")
    if device is None:
        return ""
    return string_value(device.value) or text(device.value)
