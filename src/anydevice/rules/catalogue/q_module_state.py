"""Group Q, state of modules: tensors that `module.to(device)` does not know of, and so leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.classes import Attribute, attributes, moves_itself, used_later
from anydevice.rules.contents import CONTAINERS, elements, is_alias_of_buffer
from anydevice.rules.home import Home
from anydevice.rules.meeting import Journey
from anydevice.rules.residence import Residence, residence
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.rules.tensor_words import MADE_ON_A_LINE, MAKERS, SCRIPT
from anydevice.rules.trail import Meeting
from anydevice.source.calls import Call
from anydevice.source.syntax import field, same, strip_parens, text

_HEAD = "import torch\nfrom torch import nn\n"


class TensorAttributeNotBuffer(PythonRule):
    """`self.table = torch.linspace(...)` in a module's `__init__` is a plain attribute: `module.to(device)` leaves it.

    The first `forward` on another device then fails, far from the line at fault; the tensor is not saved with the
    model either.

    Instead: `self.register_buffer("table", torch.linspace(...), persistent=False)`, which moves with the module and
    keeps old checkpoints loadable. For what is trained: `nn.Parameter`.

    References: https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer
    """

    code = "ADQ02"
    name = "tensor-attribute-not-buffer"
    summary = "a tensor kept as a plain attribute does not move with its module"
    anchors = MAKERS
    needs = ("Module", (MADE_ON_A_LINE, SCRIPT), r"self\.\w+ *= ")
    examples = (
        Example(
            "a table",
            _HEAD + "class Bank(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
            "        self.grid = torch.arange(n).float()\n    def forward(self, x):\n        return x * self.grid\n",
            _HEAD + "class Bank(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
            '        self.register_buffer("grid", torch.arange(n).float(), persistent=False)\n'
            "    def forward(self, x):\n        return x * self.grid\n",
        ),
        Example(
            "built in steps",
            _HEAD + "class Wave(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
            "        pe = torch.zeros(n, 2)\n        pe[:, 0] = 1\n        self.pe = pe.unsqueeze(0)\n"
            "    def forward(self, x):\n        return x + self.pe[:, : x.size(1)]\n",
            _HEAD + "class Wave(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
            "        pe = torch.zeros(n, 2)\n        pe[:, 0] = 1\n"
            '        self.register_buffer("pe", pe.unsqueeze(0), persistent=False)\n'
            "    def forward(self, x):\n        return x + self.pe[:, : x.size(1)]\n",
        ),
        Example(
            "several in a list",
            _HEAD + "class Many(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.shifts = [torch.ones(2), torch.zeros(2)]\n    def forward(self, x):\n"
            "        return x + self.shifts[0] - self.shifts[1]\n",
        ),
    )
    leaves = (
        Leave(
            _HEAD + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.grid = torch.arange(3)\n    def forward(self, x):\n        return x * self.grid.to(x.device)\n",
            "moved at every use",
        ),
        Leave(
            _HEAD + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.order = torch.randperm(3)\n    def forward(self, x):\n        return x[self.order]\n",
            "a CPU tensor may index any tensor",
        ),
        Leave(
            _HEAD + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.w = nn.Parameter(torch.zeros(3))\n        self.s = torch.tensor(0.5)\n"
            "    def forward(self, x):\n        return x * self.w * self.s\n",
            "a parameter moves, a single number need not",
        ),
        Leave(
            _HEAD + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.h = torch.zeros(3)\n    def forward(self, x):\n        self.h = self.h.to(x)\n        return x + self.h\n",
            "moved before it is used",
        ),
        Leave(
            "import torch\nclass Sampler:\n    def __init__(self):\n        self.t = torch.arange(3)\n"
            "    def forward(self, x):\n        return x + self.t\n",
            "no module",
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if site.call is not None and site.qualname == f"torch.{site.word}":
            yield from _unregistered(site.context, self)

    def report(self, context: Context, attribute: Attribute, found: Meeting) -> Finding:
        """The finding at an attribute."""
        line = found.where.start_point[0] + 1
        name, shown = attribute.name, text(found.partner)[:30].split("\n")[0]
        written = f'self.register_buffer("{name}", ..., persistent=False)'
        message = (
            f"`self.{name}` is a plain attribute, so `.to(device)` leaves it on the CPU, and line {line} uses it beside "
            f"`{shown}`; write `{written}`"
        )
        if strip_parens(attribute.value).type in CONTAINERS:
            message = message.rpartition(";")[0] + "; register each tensor as a buffer"
            return context.finding(self, attribute.statement, message, Safety.MANUAL)
        if "requires_grad=True" in text(attribute.value):
            message = message.rpartition(";")[0] + "; make it an `nn.Parameter`"
            return context.finding(self, attribute.statement, message, Safety.MANUAL)
        edits = self._edits(context, attribute)
        return context.finding(self, attribute.statement, message, Safety.UNSAFE if edits else Safety.MANUAL, edits)

    def _edits(self, context: Context, attribute: Attribute) -> list[Edit]:
        module, name = context.module, attribute.name
        where = residence(context)
        assignments = list(where.attribute_values(attribute.class_, name))
        function = module.function(attribute.target)
        before = module.data[function.start_byte : attribute.statement.start_byte] if function is not None else b""
        in_class_body = any(same(b.scope, attribute.class_) for b in module.names.bindings(name))
        assignment = attribute.target.parent
        annotated = assignment is not None and field(assignment, "type") is not None
        chained = attribute.value.type == "assignment"
        if (
            len(assignments) != 1
            or b"__init__(" not in before
            or b"super" not in before
            or in_class_body
            or annotated
            or chained
        ):
            return []
        return [
            module.edit(attribute.target.start_byte, attribute.value.start_byte, f'self.register_buffer("{name}", '),
            module.insert(attribute.value.end_byte, ", persistent=False)"),
        ]


@lru_cache(maxsize=2)
def _unregistered(context: Context, rule: TensorAttributeNotBuffer) -> tuple[Finding, ...]:
    """What there is to report in one file."""
    found = []
    where = residence(context)
    for attribute in attributes(context):
        meeting = _left_behind(where, attribute)
        if meeting is not None:
            found.append(rule.report(context, attribute, meeting))
    return tuple(found)


def _left_behind(where: Residence, attribute: Attribute) -> Meeting | None:
    """Where a plain CPU attribute of a module meets the tensors that moved."""
    if where.of(attribute.value) is not Home.CPU or where.registered(attribute.class_, attribute.name):
        return None
    if moves_itself(attribute.class_) or _holds_buffers(attribute):
        return None
    for target, value in where.attribute_values(attribute.class_, attribute.name):
        if value is not None and value.type == "call" and text(Call(value).function).endswith(("Parameter", "Buffer")):
            return None
        if value is None or where.of(value) not in (Home.CPU, Home.OTHER):
            if where.runs_after_move(where.module.function(target)) or value is None:
                return None
            if where.of(value) in (Home.DEVICE, Home.PLACED):
                return None
    likely = None
    for use in used_later(where, attribute):
        journey = Journey(where)
        meeting = journey.meeting(use)
        if meeting is not None:
            return meeting
        likely = likely or journey.likely
    return likely


def _holds_buffers(attribute: Attribute) -> bool:
    """Whether the value is (or holds) a tensor that is registered under another name: stale after a move, another rule's."""
    value = strip_parens(attribute.value)
    held = elements(value) if value.type in CONTAINERS else (value,)
    return any(is_alias_of_buffer(attribute, element) for element in held)
