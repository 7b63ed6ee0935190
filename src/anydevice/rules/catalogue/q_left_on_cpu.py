"""Group Q, left on the CPU: models that are never moved while their inputs are, and inputs that are not while models are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.at_hand import device_at
from anydevice.rules.classes import module_classes
from anydevice.rules.meeting import Trail, meeting_of
from anydevice.rules.residence import Home, Residence, moved_by, residence
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.rules.tensor_words import MAKERS, SCRIPT
from anydevice.source.calls import Call
from anydevice.source.names import Binding
from anydevice.source.syntax import field, first_named, same, statement, text

_HEAD = "import torch\nfrom torch import nn\n"
_NO_BATCH = re.compile(r"(?i)len|path|name|id(?:s|x)?\Z|index|meta|info|file|text|word|key|size|epoch|step")
_HARMLESS = frozenset(
    [
        "print",
        "len",
        "list",
        "isinstance",
        "type",
        "id",
        "str",
        "repr",
        "summary",
        "summarize",
        "count_parameters",
        "num_params",
        "get_n_params",
        "save",
        "state_dict",
        "getattr",
        "hasattr",
        "clip_grad_norm_",
        "parameters_to_vector",
        "sum",
        "watch",
        "next",
        "iter",
    ]
)


class ModuleNotMoved(PythonRule):
    """A model is called with an input that was moved, but nothing moves the model.

    `torch.load(..., map_location=device)` does not: `load_state_dict` copies into the parameters where they are.

    Instead: `net = Net().to(device)`.
    """

    code = "ADQ08"
    name = "module-not-moved"
    summary = "the inputs are moved, the model never is"
    anchors = ("to", "cuda", "device")
    needs = (r"nn\.|load_state_dict\(", r"\.to\(|\.cuda\(|device", SCRIPT)
    examples = (
        Example(
            "a script",
            _HEAD + "net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())\nx = torch.rand(1, 2).to(device)\nprint(net(x))\n",
        ),
        Example(
            "a device of its own",
            _HEAD + 'device = torch.device("mps" if args.mps else "cpu")\nnet = nn.Linear(2, 2)\n'
            "print(net(torch.rand(1, 2, device=device)))\n",
            _HEAD + 'device = torch.device("mps" if args.mps else "cpu")\nnet = nn.Linear(2, 2).to(device)\n'
            "print(net(torch.rand(1, 2, device=device)))\n",
        ),
        Example(
            "handed to a function",
            _HEAD
            + "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(2, 2)\n"
            "    def forward(self, x):\n        return self.fc(x)\n"
            "def run(model, x):\n    return model(x.cuda())\nnet = Net()\nrun(net, torch.rand(1, 2))\n",
        ),
    )
    leaves = (
        Leave(_HEAD + "net = nn.Linear(2, 2)\nnet.to(device)\nprint(net(torch.rand(1, 2).to(device)))\n", "moved"),
        Leave(
            _HEAD + "net = nn.Linear(2, 2)\nnet = accelerator.prepare(net)\nprint(net(x.to(device)))\n",
            "another library moves it",
        ),
        Leave(_HEAD + "net = nn.Linear(2, 2)\nput(net)\nprint(net(x.to(device)))\n", "a function may move it"),
        Leave(_HEAD + "loss = nn.MSELoss()\nprint(loss(a.to(device), b.to(device)))\n", "has nothing to move"),
        Leave(_HEAD + "net = nn.Linear(2, 2)\nprint(net(x.to('cpu')))\n", "all on the CPU"),
        Leave(_HEAD + "net = nn.Linear(2, 2)\nprint(net(x.to(torch.float32)))\n", "no move"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        where = residence(site.context)
        if where.others_move or not _made_here(site.context):
            return
        value = self._moved_value(where, site)
        if value is None:
            return
        for call in _takers(where, value):
            for binding in _unmoved(where, call):
                if "deepcopy(" not in text(statement(binding)):  # a copy is another rule's
                    yield self._report(site.context, binding, value)

    def _moved_value(self, where: Residence, site: Site) -> Node | None:
        """The tensor that a site moves or makes on a device."""
        if site.word == "device":
            if site.keyword is None or site.leaf.parent is None or site.leaf.parent.parent is None:
                return None
            node = site.leaf.parent.parent.parent
        else:
            node = site.method_call.node if site.method_call is not None else None
        if node is None or node.type != "call" or where.runs_after_move(site.module.function(node)):
            return None
        return node if where.of(node) is Home.DEVICE else None

    def _report(self, context: Context, binding: Node, value: Node) -> Finding:
        holder = binding.parent
        made = field(holder, "right") if holder is not None and holder.type == "assignment" else None
        name = text(binding)
        line = value.start_point[0] + 1
        device = device_at(context, made if made is not None else binding)
        shown = device or "device"
        message = (
            f"`{name}` is called with what line {line} moves, but is never moved itself; write `.to({shown})` here"
        )
        if made is None or made.type != "call" or device is None:
            return context.finding(self, statement(binding), message, Safety.MANUAL)
        return context.finding(
            self, statement(binding), message, Safety.UNSAFE, [context.module.insert(made.end_byte, f".to({shown})")]
        )


_MADE = re.compile(rb"(?m)^[ \t]*(?:self\.)?\w+[ \t]*=[ \t]*((?:\w+\.)*(\w+))\(")


@lru_cache(maxsize=2)
def _made_here(context: Context) -> bool:
    """Whether a file makes modules outside of module classes and leaves them where they are."""
    where, module = residence(context), context.module
    if not any(word in module.data for word in (b"nn.", b"models.", b"from torch.nn import", b"(Module)")):
        return False
    own = [text(field(class_, "name") or class_) for class_ in module_classes(context)]
    makers = re.compile("|".join([r"nn\.[A-Z]", r"models\.", *(rf"\b{name}\(" for name in own)]))
    taken = b" ".join(re.findall(rb"from torch[\w.]* import ([^\n]*)", module.data)).decode()
    for match in _MADE.finditer(module.data):
        name = match.group(2).decode()
        if name not in own and b"nn." not in match.group(1) and b"models." not in match.group(1):
            made_by = (
                [b.value for b in module.names.bindings(name) if b.value is not None]
                if b"def " + match.group(2) + b"(" in module.data
                else []
            )
            if name not in taken and not any(makers.search(text(function)) for function in made_by):
                continue
        leaf = module.leaf(match.start(1), match.end(1))
        while leaf is not None and leaf.type != "call":
            leaf = leaf.parent
        if leaf is not None and where.of(leaf) is Home.MODULE and not where.is_module_class(module.class_(leaf)):
            return True
    return False


def _takers(where: Residence, value: Node, depth: int = 0) -> Iterator[Call]:
    """The calls that are given a moved value: directly, as an element of a batch, or under a name."""
    if depth > 3:
        return
    node, parent = value, value.parent
    while parent is not None:
        if parent.type in ("subscript", "parenthesized_expression", "unary_operator", "binary_operator"):
            if parent.type == "subscript" and not same(field(parent, "value"), node):
                return
        elif parent.type == "attribute":
            outer = parent.parent
            if outer is None or outer.type != "call" or where.of(outer) is not Home.DEVICE:
                return
            parent = outer
        elif parent.type == "argument_list" and parent.parent is not None and parent.parent.type == "call":
            yield Call(parent.parent)
            return
        elif parent.type == "assignment" and same(field(parent, "right"), node):
            left = field(parent, "left")
            if left is not None and left.type == "identifier":
                yield from _takers_of(where, left, depth)
            return
        elif parent.type == "expression_list" and parent.parent is not None and parent.parent.type == "assignment":
            left = field(parent.parent, "left")
            index = [c.id for c in parent.named_children].index(node.id)
            target = (
                left.named_child(index)
                if left is not None and left.type == "pattern_list" and index < left.named_child_count
                else None
            )
            if target is not None and target.type == "identifier":
                yield from _takers_of(where, target, depth)
            return
        else:
            return
        node, parent = parent, parent.parent


def _takers_of(where: Residence, target: Node, depth: int) -> Iterator[Call]:
    for use in where.uses(text(target)):
        if use.start_byte > target.end_byte and any(b.node.id == target.id for b in where.reaching(use)):
            yield from _takers(where, use, depth + 1)


def _unmoved(where: Residence, call: Call) -> Iterator[Node]:
    """The names under which the modules that `call` may call were made, if nothing moves them."""
    function = call.function
    if function.type == "attribute" and text(field(function, "object") or function) == "self":
        class_ = where.module.class_(function)
        if where.is_module_class(class_) or class_ is None or where.of(function) is not Home.MODULE:
            return
        name = text(field(function, "attribute") or function)
        if not any(_escapes(where, use) for use in where.attribute_uses(class_, name)):
            yield from (target for target, value in where.attribute_values(class_, name) if value is not None)
        return
    if function.type != "identifier":
        return
    for binding in where.reaching(function):
        if binding.kind == "parameter" and binding.scope.type == "function_definition":
            for argument in where.passed(binding.scope, text(binding.node)):
                if argument.value.type == "identifier" and where.of(argument.value) is Home.MODULE:
                    yield from _kept(where, where.reaching(argument.value))
        elif where.of_binding(binding) is Home.MODULE and where.of(function) is Home.MODULE:
            yield from _kept(where, [binding])


def _kept(where: Residence, bindings: list[Binding]) -> Iterator[Node]:
    for binding in bindings:
        if binding.kind == "assignment" and not any(_escapes(where, use) for use in where.uses(text(binding.node))):
            yield binding.node


def _escapes(where: Residence, use: Node) -> bool:
    """Whether a module is moved at `use`, or handed to something that may move it."""
    if moved_by(use) is not None:
        return True
    node, parent = use, use.parent
    while parent is not None and parent.type in (
        "list",
        "tuple",
        "dictionary",
        "pair",
        "keyword_argument",
        "list_splat",
        "expression_list",
    ):
        node, parent = parent, parent.parent
    if parent is None or parent.type == "return_statement":
        return parent is not None
    if parent.type == "assignment" and same(field(parent, "right"), node):
        return True
    if parent.type in ("for_statement", "for_in_clause"):
        return True
    if parent.type != "argument_list" or parent.parent is None or parent.parent.type != "call":
        return False
    call = Call(parent.parent)
    function = where.function_of(call)
    if function is not None:
        names = [name for name, a in where.matched(function, call) if same(a.value, use)]
        return not names or re.search(rf"\b{names[0]}\s*\.(?:to|cuda)\(|\b{names[0]}\s*=", text(function)) is not None
    return text(call.function).rsplit(".", 1)[-1] not in _HARMLESS


class BatchNotMoved(PythonRule):
    """A model was moved, but what it is called with was not: batches of a loader come on the CPU.

    Instead: `net(x.to(device))`, and the targets with it. (nn.DataParallel moves its inputs itself.)
    """

    code = "ADQ09"
    name = "batch-not-moved"
    summary = "the model is moved, its inputs never are"
    anchors = (*MAKERS, "DataLoader", "to", "cuda")
    needs = (r"\.to\(|\.cuda\(|device=", (r"DataLoader|dataloader|backward\(|loader:", SCRIPT))
    examples = (
        Example(
            "a loop over a loader",
            _HEAD
            + "from torch.utils.data import DataLoader\ndevice = torch.device('mps')\nnet = nn.Linear(2, 2).to(device)\n"
            "for x, y in DataLoader(data, batch_size=4):\n    out = net(x)\n",
            _HEAD
            + "from torch.utils.data import DataLoader\ndevice = torch.device('mps')\nnet = nn.Linear(2, 2).to(device)\n"
            "for x, y in DataLoader(data, batch_size=4):\n    out = net(x.to(device))\n",
        ),
        Example(
            "the targets",
            _HEAD + "device = pick()\nnet = nn.Linear(2, 2).to(device)\nloss = nn.MSELoss()\n"
            "for x, y in train_loader:\n    print(loss(net(x.to(device)), y))\n",
            _HEAD + "device = pick()\nnet = nn.Linear(2, 2).to(device)\nloss = nn.MSELoss()\n"
            "for x, y in train_loader:\n    print(loss(net(x.to(device)), y.to(device)))\n",
        ),
        Example("a single batch", _HEAD + "net = nn.Linear(2, 2).to(pick())\nprint(net(torch.rand(3, 2)))\n"),
    )
    leaves = (
        Leave(_HEAD + "net = nn.Linear(2, 2).to(d)\nfor x, y in loader:\n    x = x.to(d)\n    net(x)\n", "moved"),
        Leave(
            _HEAD + "net = nn.DataParallel(nn.Linear(2, 2)).to(d)\nfor x, y in loader:\n    net(x)\n",
            "DataParallel moves inputs",
        ),
        Leave(_HEAD + "net = nn.Linear(2, 2)\nfor x, y in loader:\n    net(x)\n", "nothing is moved"),
        Leave(
            _HEAD + "net = nn.Linear(2, 2).to(d)\nfor batch in loader:\n    batch = move(batch, d)\n    net(batch)\n",
            "moved by a function",
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if residence(site.context).others_move or not residence(site.context).has_moves:
            return
        if site.word in ("DataLoader", "to", "cuda"):
            yield from _batches(site.context, self)
            return
        call, where = site.call, residence(site.context)
        if call is None or site.qualname != f"torch.{site.word}" or where.made(call, site.word) is not Home.CPU:
            return
        if where.is_made_at_construction(call.node):
            return
        found = meeting_of(where, call.node)
        if found is None or found.kind != "module" or where.runs_after_move(site.module.function(found.where)):
            return
        yield self.report(site.context, found.where, _carrier(found.where, where))

    def report(self, context: Context, call: Node, argument: Node | None) -> Finding:
        """The finding at a call; `argument` is what to move."""
        device = device_at(context, call)
        shown = device or "device"
        function = text(Call(call).function) if call.type == "call" else ""
        what = text(argument)[:30] if argument is not None else "the input"
        message = f"`{what}` is on the CPU, `{function or 'the other operand'}` was moved; write `{what}.to({shown})`"
        simple = argument is not None and argument.type in ("identifier", "call", "subscript", "attribute")
        if device is None or not simple or argument is None:
            return context.finding(self, call, message, Safety.MANUAL)
        return context.finding(
            self, call, message, Safety.UNSAFE, [context.module.insert(argument.end_byte, f".to({shown})")]
        )


def _carrier(call: Node, where: Residence) -> Node | None:
    """The argument of a call that is on the CPU."""
    if call.type != "call":
        return None
    return next(
        (a.value for a in Call(call).arguments if where.of(a.value) is Home.CPU and a.value.type != "tuple"), None
    )


_LOOP = re.compile(rb"(?m)^[ \t]*for[ \t]+(?P<targets>[^\n]*?)[ \t]+in[ \t]+(?P<source>[^\n]*):")
_NEXT = re.compile(rb"next\(\s*iter\(")


@lru_cache(maxsize=2)
def _batches(context: Context, rule: BatchNotMoved) -> tuple[Finding, ...]:
    """What the loops over loaders of a file feed to moved models, unmoved."""
    where, module = residence(context), context.module
    found: dict[int, Finding] = {}
    if b"oader" not in module.data:
        return ()
    loaders = set(re.findall(rb"(\w+)[ \t]*=[ \t]*(?:\w+\.)*DataLoader\(", module.data))
    for match in [*_LOOP.finditer(module.data), *_NEXT.finditer(module.data)]:
        source = match.groupdict().get("source")
        if source is not None and not (
            b"oader" in source or b"_dl" in source or loaders & set(re.findall(rb"\w+", source))
        ):
            continue
        for binding in _bound(context, match):
            if _NO_BATCH.search(text(binding.node)) or where.of_binding(binding) is not Home.CPU:
                continue
            if where.is_module_class(module.class_(binding.node)):
                continue
            trail = Trail(where)
            meeting = trail.uses_of(binding)
            if meeting is not None and meeting.kind in ("module", "operation", "in-place") and not meeting.calls:
                found.setdefault(meeting.where.id, rule.report(context, meeting.where, _carrier(meeting.where, where)))
    return tuple(found.values())


def _bound(context: Context, match: re.Match[bytes]) -> Iterator[Binding]:
    """The names that a loop (or `x, y = next(iter(...))`) binds."""
    module = context.module
    if match.re is _NEXT:
        leaf = module.leaf(match.start(), match.start() + 4)
        owner = statement(leaf) if leaf is not None else None
        inner = first_named(owner)
        target = field(inner, "left") if inner is not None and inner.type == "assignment" else None
    else:
        leaf = module.leaf(match.start("targets"), match.start("targets") + 1)
        loop = leaf
        while loop is not None and loop.type != "for_statement":
            loop = loop.parent
        target = field(loop, "left") if loop is not None else None
    if target is None:
        return
    for word in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", text(target))):
        for binding in module.names.bindings(word):
            if target.start_byte <= binding.node.start_byte < target.end_byte:
                yield binding


class DiscardedMove(PythonRule):
    """`x.to(device)` as a statement: a tensor is not moved in place, the result is thrown away.

    Instead: `x = x.to(device)`. (Modules are moved in place; for them the statement is right.)
    """

    code = "ADQ10"
    name = "discarded-move"
    summary = "the moved tensor is thrown away"
    anchors = ("to", "cuda")
    needs = (
        r"from_numpy\(|\.tensor\(|\.zeros\(|\.ones\(|\.rand|\.arange\(|\.full\(|\.eye\(|linspace\(|\.empty\(|Tensor\(|oader",
        r"\n[ \t]*(?!self\b)[\w.]+\.(?:to|cuda)\([^\n]*\)[ \t]*(?:#[^\n]*)?\n",
    )
    examples = (
        Example(
            "a tensor",
            "import torch\nx = torch.zeros(3)\nx.to(device)\n",
            "import torch\nx = torch.zeros(3)\nx = x.to(device)\n",
        ),
        Example(
            "a batch",
            "import torch\nfrom torch.utils.data import DataLoader\nfor x, y in DataLoader(data):\n    x.to(device)\n",
            "import torch\nfrom torch.utils.data import DataLoader\nfor x, y in DataLoader(data):\n    x = x.to(device)\n",
        ),
    )
    leaves = (
        Leave("import torch\nmodel = torch.nn.Linear(2, 2)\nmodel.to(device)\n", "a module"),
        Leave("import torch\nthing.to(device)\n", "may be a module"),
        Leave("import torch\nx = torch.zeros(3)\ny = x.to(device)\n", "kept"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.method_call
        owner = call.node.parent if call is not None else None
        if call is None or owner is None or owner.type != "expression_statement" or call.receiver is None:
            return
        where = residence(site.context)
        if call.receiver.type not in ("identifier", "attribute") or where.of(call.receiver) not in (
            Home.CPU,
            Home.SCALAR,
        ):
            return
        if where.move_target(call) in (Home.DEVICE, Home.PLACED):
            name = text(call.receiver)
            yield site.context.finding(
                self,
                call.node,
                f"tensors are not moved in place; write `{name} = {text(call.node)[:60]}`",
                Safety.UNSAFE,
                [site.module.insert(call.node.start_byte, f"{name} = ")],
            )
