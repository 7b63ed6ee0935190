"""Group Q, state of modules: tensors and layers that `module.to(device)` does not know of, and so leaves behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.classes import Attribute, attributes, moves_itself, used_later
from anydevice.rules.meeting import Meeting, Trail
from anydevice.rules.residence import FACTORIES, LEGACY, Home, Residence, residence
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Call
from anydevice.source.module import Module
from anydevice.source.syntax import ancestors, field, same, strip_parens, text

_CONTAINERS = frozenset({"list", "dictionary", "tuple", "list_comprehension", "dictionary_comprehension", "set"})
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
    anchors = tuple(sorted((FACTORIES | LEGACY | {"from_numpy"}) - {"range", "normal"}))
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
        if strip_parens(attribute.value).type in _CONTAINERS:
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
        if len(assignments) != 1 or b"__init__(" not in before or b"super" not in before or in_class_body or annotated or chained:
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
    if moves_itself(attribute.class_) or _is_alias_of_buffer(where, attribute):
        return None
    for target, value in where.attribute_values(attribute.class_, attribute.name):
        if value is None or where.of(value) not in (Home.CPU, Home.OTHER):
            if where.runs_after_move(where.module.function(target)) or value is None:
                return None
            if where.of(value) in (Home.DEVICE, Home.PLACED):
                return None
    likely = None
    for use in used_later(where, attribute):
        trail = Trail(where)
        meeting = trail.meeting(use)
        if meeting is not None:
            return meeting
        likely = likely or trail.likely
    return likely


def _is_alias_of_buffer(where: Residence, attribute: Attribute) -> bool:
    """Whether the value is (part of) a tensor that is registered too, under another name."""
    root = _root(attribute.value)
    return root is not None and re.search(
        rf"register_buffer\([^)]*,\s*(?:tensor\s*=\s*)?{re.escape(text(root))}\s*[,)]", text(attribute.class_)
    ) is not None


def _root(node: Node) -> Node | None:
    """The name (or `self.x`) out of which a view, a chain of methods, or a container is made."""
    node = strip_parens(node)
    if node.type == "identifier" or (node.type == "attribute" and text(node).startswith("self.") and text(node).count(".") == 1):
        return node
    inner = None
    if node.type in ("subscript",):
        inner = field(node, "value")
    elif node.type == "attribute":
        inner = field(node, "object")
    elif node.type == "call" and field(node, "function") is not None:
        inner = Call(node).receiver
    return _root(inner) if inner is not None else None


class ModulesInPlainContainer(PythonRule):
    """Layers kept in a Python list or dict are not submodules: not moved, not trained, not saved.

    Instead: `nn.ModuleList` or `nn.ModuleDict`, which are used in the same way. The names in `state_dict()` and the set of
    `parameters()` change: they were missing before. A list that is wrapped later (`nn.Sequential(*self.blocks)`) is fine.

    References: https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html
    """

    code = "ADQ03"
    name = "modules-in-plain-container"
    summary = "layers in a plain list or dict do not move with their module"
    anchors = ("Module", "LightningModule", "PreTrainedModel", "Linear", "Conv1d", "Conv2d")
    examples = (
        Example(
            "appended",
            _HEAD + "class Tower(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.steps = []\n"
            "        for _ in range(3):\n            self.steps.append(nn.Linear(4, 4))\n",
            _HEAD + "class Tower(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.steps = nn.ModuleList()\n"
            "        for _ in range(3):\n            self.steps.append(nn.Linear(4, 4))\n",
        ),
        Example(
            "a comprehension",
            _HEAD + "class Tower(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.steps = [nn.Linear(4, 4) for _ in range(3)]\n",
            _HEAD + "class Tower(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.steps = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])\n",
        ),
        Example(
            "a dict",
            _HEAD + "class Heads(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            '        self.heads = {"a": nn.Linear(4, 1), "b": nn.Linear(4, 2)}\n',
            _HEAD + "class Heads(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            '        self.heads = nn.ModuleDict({"a": nn.Linear(4, 1), "b": nn.Linear(4, 2)})\n',
        ),
        Example(
            "filled by key",
            _HEAD + "class Heads(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.heads = {}\n"
            "        for size in (1, 2):\n            self.heads[size] = nn.Linear(4, size)\n",
        ),
        Example(
            "a local list",
            _HEAD + "class Tower(nn.Module):\n    def __init__(self):\n        super().__init__()\n        steps = []\n"
            "        steps.append(nn.Linear(4, 4))\n        self.steps = steps\n",
            _HEAD + "class Tower(nn.Module):\n    def __init__(self):\n        super().__init__()\n        steps = []\n"
            "        steps.append(nn.Linear(4, 4))\n        self.steps = nn.ModuleList(steps)\n",
        ),
    )
    leaves = (
        Leave(
            _HEAD + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.blocks = []\n        self.blocks.append(nn.Linear(2, 2))\n        self.net = nn.Sequential(*self.blocks)\n",
            "wrapped later",
        ),
        Leave(
            _HEAD + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.a = nn.Linear(2, 2)\n        self.all = [self.a]\n",
            "registered under a name of its own",
        ),
        Leave(
            _HEAD + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.acts = [nn.ReLU(), nn.Tanh()]\n        layers = [nn.Linear(2, 2)]\n        self.net = nn.Sequential(*layers)\n",
            "without tensors of their own",
        ),
        Leave(
            _HEAD + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.m = []\n"
            "        for i in range(2):\n            layer = nn.Linear(2, 2)\n            self.add_module(str(i), layer)\n"
            "            self.m.append(layer)\n",
            "added by name",
        ),
        Leave(_HEAD + "class Pool:\n    def __init__(self):\n        self.nets = [nn.Linear(2, 2)]\n", "no module"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        yield from _contained(site.context, self)

    def report(self, context: Context, attribute: Attribute) -> Finding:
        """The finding at a container."""
        module = context.module
        value = strip_parens(attribute.value)
        nn = _name_of_nn(module)
        kind = "ModuleDict" if "dict" in value.type or text(value).startswith("dict(") else "ModuleList"
        message = (
            f"`self.{attribute.name}` is a plain container, so its layers are neither moved nor trained nor saved; "
            f"write `{nn or 'nn'}.{kind}(...)`"
        )
        written = self._written(context, attribute, value, f"{nn}.{kind}") if nn is not None else None
        if written is None:
            return context.finding(self, attribute.statement, message, Safety.MANUAL)
        return context.finding(self, attribute.statement, message, Safety.UNSAFE, [module.replace(value, written)])

    def _written(self, context: Context, attribute: Attribute, value: Node, wrapper: str) -> str | None:
        """The container as a module, or None where a person must see to the keys or the nesting."""
        source = text(value)
        stored = re.search(rf"self\.{attribute.name}\[[^\]]*\]\s*=", text(attribute.class_))
        if stored is not None or len(list(residence(context).attribute_values(attribute.class_, attribute.name))) > 1:
            return None
        if source in ("[]", "list()", "{}", "dict()"):
            return f"{wrapper}()"
        if value.type in ("list", "tuple", "dictionary"):
            children = [c for c in value.named_children if c.type != "comment"]
            if value.type == "dictionary" and not all(
                c.type == "pair" and (key := field(c, "key")) is not None and key.type == "string" for c in children
            ):
                return None
            if any(c.type in _CONTAINERS for c in children):
                return None
            return f"{wrapper}({source})"
        return f"{wrapper}({source})" if value.type in ("list_comprehension", "identifier") else None


@lru_cache(maxsize=2)
def _contained(context: Context, rule: ModulesInPlainContainer) -> tuple[Finding, ...]:
    where = residence(context)
    return tuple(
        rule.report(context, attribute)
        for attribute in attributes(context)
        if _is_container(where, attribute) and _holds_layers(where, attribute) and not _is_attached(where, attribute)
    )


def _is_container(where: Residence, attribute: Attribute) -> bool:
    value = strip_parens(attribute.value)
    if value.type == "identifier":
        bindings = where.reaching(value)
        return len(bindings) == 1 and bindings[0].value is not None and bindings[0].value.type in ("list", "list_comprehension")
    return value.type in _CONTAINERS - {"set"} or text(value) in ("list()", "dict()") or bool(
        value.type == "binary_operator" and re.match(r"\[\s*(?:None)?\s*\]\s*\*", text(value))
    )


def _holds_layers(where: Residence, attribute: Attribute) -> bool:
    """Whether some element is a module with tensors of its own that is not an attribute of `self` already."""
    value = strip_parens(attribute.value)
    if value.type == "identifier":
        (binding,) = where.reaching(value)
        local = binding.value
        return (local is not None and any(_is_layer(where, e) for e in _elements(local))) or any(
            _is_layer(where, added) for use in where.uses(text(value)) for added in _added(use)
        )
    return any(_is_layer(where, element) for element in _elements(value)) or any(
        _is_layer(where, added)
        for use in where.attribute_uses(attribute.class_, attribute.name)
        for added in _added(use)
    )


def _elements(container: Node) -> Iterator[Node]:
    if container.type in ("list", "tuple"):
        for child in container.named_children:
            yield from _elements(child) if child.type in _CONTAINERS else (child,)
    elif container.type in ("list_comprehension", "dictionary_comprehension"):
        body = field(container, "body")
        value = field(body, "value") if body is not None and body.type == "pair" else body
        if value is not None:
            yield from _elements(value) if value.type in _CONTAINERS else (value,)
    elif container.type == "dictionary":
        yield from (value for pair in container.named_children if (value := field(pair, "value")) is not None)


def _added(use: Node) -> Iterator[Node]:
    """What is put into a container at one use: `x.append(a)`, `x += [a]`, `x[k] = a`."""
    parent = use.parent
    if parent is None:
        return
    outer = parent.parent
    if parent.type == "attribute" and outer is not None and outer.type == "call":
        call = Call(outer)
        if call.method in ("append", "insert", "add") and call.positional:
            yield call.positional[-1].value
        elif call.method in ("extend", "update") and call.positional:
            yield from _elements(call.positional[0].value)
    elif parent.type == "augmented_assignment" and same(field(parent, "left"), use):
        right = field(parent, "right")
        if right is not None:
            yield from _elements(right)
    elif parent.type == "subscript" and outer is not None and outer.type == "assignment" and same(field(outer, "left"), parent):
        right = field(outer, "right")
        if right is not None:
            yield right


def _is_layer(where: Residence, node: Node) -> bool:
    node = strip_parens(node)
    if node.type == "attribute":
        return False
    if node.type in ("list", "tuple"):
        return any(_is_layer(where, child) for child in node.named_children)
    return where.of(node) in (Home.MODULE, Home.MOVED_MODULE)


def _is_attached(where: Residence, attribute: Attribute) -> bool:
    """Whether the layers become submodules in another way: wrapped, added by name, or handed to a constructor."""
    if re.search(r"\badd_module\(|\bsetattr\(\s*self\b|\bregister_module\(", text(attribute.class_)):
        return True
    value = strip_parens(attribute.value)
    uses = list(where.attribute_uses(attribute.class_, attribute.name))
    if value.type == "identifier":
        uses += [use for use in where.uses(text(value)) if use.id != value.id]
    return any(_is_handed_on(use) for use in uses)


def _is_handed_on(use: Node) -> bool:
    node, parent = use, use.parent
    while parent is not None and parent.type in ("list_splat", "dictionary_splat", "list", "binary_operator", "keyword_argument", "subscript"):
        if parent.type == "subscript" and not same(field(parent, "value"), node):
            return False
        node, parent = parent, parent.parent
    if parent is None or parent.type != "argument_list" or parent.parent is None or parent.parent.type != "call":
        return False
    function = text(Call(parent.parent).function)
    return function.rsplit(".", 1)[-1][:1].isupper() or function.startswith("super")


def _name_of_nn(module: Module) -> str | None:
    """What the file calls torch.nn."""
    for binding in module.names.imports:
        if binding.target == "torch.nn":
            return text(binding.node)
    if any(b.target == "torch" for b in module.names.imports):
        return "torch.nn"
    return None


class StaleTensorAlias(PythonRule):
    """A second name, a view or a container made from a buffer keeps the old tensor: `module.to(device)` replaces buffers.

    Parameters are updated in place, buffers are not: after `.to(device)`, `self.buffer` is a new tensor while
    `self.alias` (or `self.tables["buffer"]`) still is the one on the CPU. The same happens outside of modules: a dict
    built before `x = x.to(device)` holds the old `x`, and `for x in batch: x = x.to(device)` changes nothing in `batch`.

    Instead: make the alias where it is used (a property, or at the top of `forward`), and containers after the move.
    """

    code = "ADQ04"
    name = "stale-tensor-alias"
    summary = "a second name keeps the tensor that `.to()` replaces"
    anchors = ("register_buffer", "Parameter", "to", "cuda")
    examples = (
        Example(
            "a second name for a buffer",
            _HEAD + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            '        self.register_buffer("mean", torch.zeros(3))\n        self.shift = self.mean\n'
            "    def forward(self, x):\n        return x - self.shift\n",
        ),
        Example(
            "buffers in a dict",
            _HEAD + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            '        self.register_buffer("mean", torch.zeros(3))\n        self.tables = {"mean": self.mean}\n'
            '    def forward(self, x):\n        return x - self.tables["mean"]\n',
        ),
        Example(
            "a view of a parameter",
            _HEAD + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.w = nn.Parameter(torch.zeros(3, 4))\n        self.wt = self.w.t()\n"
            "    def forward(self, x):\n        return x @ self.wt\n",
        ),
        Example(
            "a dict made too early",
            "import torch\nx = torch.zeros(3)\nbatch = {'x': x}\nx = x.to(device)\nnet(batch['x'])\n",
        ),
        Example("a loop that changes nothing", "import torch\nfor key, value in batch.items():\n    value = value.to(device)\n"),
    )
    leaves = (
        Leave(
            _HEAD + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.w = nn.Parameter(torch.zeros(3))\n        self.same = self.w\n        self.all = [self.w]\n"
            "    def forward(self, x):\n        return x * self.same * self.all[0]\n",
            "parameters are updated in place",
        ),
        Leave(
            _HEAD + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            '        self.register_buffer("mean", torch.zeros(3))\n        self.n = self.mean.numel()\n'
            "    def forward(self, x):\n        return x * self.n\n",
            "not a tensor",
        ),
        Leave("import torch\nfor model in models:\n    model = model.to(device)\n", "modules move in place"),
        Leave("import torch\nfor x in batch:\n    x = x.to(device)\n    net(x)\n", "used in the loop"),
        Leave("import torch\nx = torch.zeros(3)\nx = x.to(device)\nbatch = {'x': x}\nnet(batch)\n", "made after the move"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if site.word in ("register_buffer", "Parameter"):
            yield from _aliases(site.context, self)
            return
        if site.method_call is not None:
            yield from self._rebound(site, site.method_call)

    def _rebound(self, site: Site, call: Call) -> Iterator[Finding]:
        """`x = x.to(device)`: who else holds the old x?"""
        assignment = call.node.parent
        target = field(assignment, "left") if assignment is not None and assignment.type == "assignment" else None
        if target is None or target.type != "identifier" or call.receiver is None or text(target) != text(call.receiver):
            return
        where, name = residence(site.context), text(target)
        if where.runs_after_move(site.module.function(target)):
            return
        loop = next((a for a in ancestors(call.node) if a.type == "for_statement"), None)
        bound = {c for c in re.findall(r"\w+", text(field(loop, "left") or loop))} if loop is not None else set()
        if where.move_target(call) in (None, Home.CPU):
            return
        if loop is not None and name in bound:
            if self._changes_nothing(where, loop, call.node, name):
                yield site.context.finding(
                    self, call.node.parent or call.node,
                    f"`{name}` is a name of the loop only: what it was taken from still holds the tensor that was there; "
                    f"build a new container, e.g. `[{name}.to(...) for {name} in ...]`",
                    Safety.MANUAL,
                )
            return
        yield from self._held(site, call, name)

    def _changes_nothing(self, where: Residence, loop: Node, move: Node, name: str) -> bool:
        source = text(field(loop, "right") or loop)
        if re.search(r"model|net|module|layer|param|optim", f"{name} {source}", re.IGNORECASE):
            return False
        inside = [leaf for leaf in where.module.names.occurrences(name) if move.end_byte < leaf.start_byte < loop.end_byte]
        if inside:
            return False
        tensors = where.of(field(loop, "left")) is Home.CPU or re.search(
            r"\.(?:items|values)\(\)|batch|inputs|tensors|samples|targets|labels|data", source
        )
        return bool(tensors)

    def _held(self, site: Site, call: Call, name: str) -> Iterator[Finding]:
        where, receiver = residence(site.context), call.receiver
        scope = site.module.scope(call.node)
        before = site.module.data[scope.start_byte : call.node.start_byte]
        if re.search(rb"=\s*" + name.encode() + rb"[ \t]*\n|[\[{(,:]\s*" + name.encode() + rb"\s*[,\])}]", before) is None:
            return
        if receiver is None or where.of(receiver) is not Home.CPU:
            return
        for use in where.uses(name):
            if use.start_byte >= call.node.start_byte or not same(site.module.scope(use), scope):
                continue
            holder = use.parent
            while holder is not None and holder.type in ("list", "tuple", "pair", "dictionary", "expression_list"):
                holder = holder.parent
            if holder is None or holder.type != "assignment":
                continue
            kept = field(holder, "left")
            if kept is None or kept.type != "identifier" or text(kept) == name or (field(holder, "right") or kept).type == "expression_list":
                continue
            later = [u for u in where.uses(text(kept)) if u.start_byte > call.node.end_byte and self._is_read(where, u, holder)]
            if later:
                line = call.node.start_point[0] + 1
                yield site.context.finding(
                    self, holder,
                    f"`{text(kept)}` keeps the `{name}` that line {line} moves: build it after the move",
                    Safety.MANUAL,
                )

    def _is_read(self, where: Residence, use: Node, made: Node) -> bool:
        """Whether the old container is read at `use`, and not moved there."""
        bindings = where.reaching(use)
        if not any(b.node.id == getattr(field(made, "left"), "id", None) for b in bindings):
            return False
        statement_text = next((text(a) for a in ancestors(use) if a.type.endswith("statement")), "")
        return ".to(" not in statement_text and ".cuda(" not in statement_text


@lru_cache(maxsize=2)
def _aliases(context: Context, rule: StaleTensorAlias) -> tuple[Finding, ...]:
    where, found = residence(context), []
    for attribute in attributes(context):
        if where.registered(attribute.class_, attribute.name) or moves_itself(attribute.class_):
            continue
        root = _stale_root(where, attribute)
        if root is None or not used_later(where, attribute):
            continue
        if any(where.runs_after_move(context.module.function(t)) for t, _ in where.attribute_values(attribute.class_, attribute.name)):
            continue
        found.append(
            context.finding(
                rule, attribute.statement,
                f"`self.{attribute.name}` keeps the `{root}` of construction, which `.to(device)` replaces: take `{root}` where "
                "it is used",
                Safety.MANUAL,
            )
        )
    return tuple(found)


def _stale_root(where: Residence, attribute: Attribute) -> str | None:
    """The buffer (or parameter) whose old tensor an attribute keeps."""
    value = strip_parens(attribute.value)
    for element in _elements(value) if value.type in _CONTAINERS else (value,):
        root = _root(element)
        if root is None or where.of(element) is Home.OTHER:
            continue
        if root.type == "identifier":
            if _is_alias_of_buffer(where, Attribute(attribute.class_, attribute.name, attribute.target, element, attribute.statement)):
                return text(root)
            continue
        name = text(root).partition(".")[2]
        if _is_buffer(attribute.class_, name) and not _leaves_tensors(element):
            return f"self.{name}"
        if not same(root, strip_parens(element)) and _is_parameter(where, attribute.class_, name) and not _leaves_tensors(element):
            return f"self.{name}"
    return None


def _is_buffer(class_: Node, name: str) -> bool:
    return re.search(rf"register_buffer\(\s*(?:name\s*=\s*)?[\"']{re.escape(name)}[\"']|self\.{re.escape(name)}\s*=\s*(?:nn|torch\.nn)\.Buffer\(", text(class_)) is not None


def _is_parameter(where: Residence, class_: Node, name: str) -> bool:
    return re.search(rf"self\.{re.escape(name)}\s*=\s*(?:\w+\.)*Parameter\(", text(class_)) is not None


def _leaves_tensors(element: Node) -> bool:
    """Whether a view ends in something that is no view: a shape, a number, a copy made by a call of a function."""
    return re.search(r"\.(?:shape|size|numel|item|tolist|dim|ndim|dtype|device|clone|numpy|requires_grad_?)\b", text(element)) is not None
