"""Group Q, state of training: optimizers, copies and losses made before, or left out of, the move to the device."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.at_hand import device_at
from anydevice.rules.order import move_after, prefixes
from anydevice.rules.residence import Home, Residence, residence
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.rules.tensor_words import SCRIPT
from anydevice.source.calls import Argument, Call
from anydevice.source.syntax import ancestors, field, first_named, same, statement, text

_HEAD = "import copy\nimport torch\nfrom torch import nn\n"
_OPTIMIZERS = [
    "Adam",
    "AdamW",
    "SGD",
    "RMSprop",
    "Adagrad",
    "Adadelta",
    "Adamax",
    "NAdam",
    "RAdam",
    "LBFGS",
    "ASGD",
    "SparseAdam",
    "Rprop",
    "Adafactor",
    "Lion",
    "Ranger",
    "LARS",
    "LAMB",
    "FusedAdam",
    "Muon",
]
_PARAMETERS = re.compile(r"(?<![\w.])((?:\w+\.)*\w+)\.(?:named_)?parameters\(\)")


class OptimizerBeforeMove(PythonRule):
    """An optimizer built before its model is moved.

    `Module.to` moves parameters, not the optimizer's state: what a step, or `optimizer.load_state_dict`, made before the
    move stays on the CPU, and the next step fails. Optimizers that make their state at once (Adagrad) fail every time.

    Instead: move the model first, then build the optimizer, then load its state.

    References: https://docs.pytorch.org/docs/stable/optim.html#constructing-it
    """

    code = "ADQ05"
    name = "optimizer-before-move"
    summary = "the optimizer is built before its model is moved"
    anchors = tuple(_OPTIMIZERS)
    examples = (
        Example(
            "a script",
            _HEAD
            + "model = nn.Linear(2, 2)\nopt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)\nmodel.to(device)\n",
        ),
        Example(
            "a trainer",
            _HEAD + "class Trainer:\n    def __init__(self, net, device):\n        self.net = net\n"
            "        self.opt = torch.optim.Adam(self.net.parameters())\n        self.net = self.net.to(device)\n",
        ),
        Example(
            "resumed before the move",
            _HEAD
            + "def resume(net, state):\n    opt = torch.optim.AdamW(net.parameters())\n    opt.load_state_dict(state)\n    net.cuda()\n",
        ),
    )
    leaves = (
        Leave(
            _HEAD + "net = nn.Linear(2, 2)\nnet.to(device)\nopt = torch.optim.Adam(net.parameters())\n",
            "after the move",
        ),
        Leave(
            _HEAD
            + "net = nn.Linear(2, 2).to(device)\nopt = torch.optim.Adam(net.parameters())\nnet.half()\nnet.to(device)\n",
            "moved when it was made",
        ),
        Leave(
            _HEAD + "net = nn.Linear(2, 2)\nopt = torch.optim.Adam(net.parameters())\nnet = other()\nnet.to(device)\n",
            "another model of the same name",
        ),
        Leave(
            _HEAD + "def build(net):\n    return torch.optim.Adam(net.parameters())\ndef move(net):\n    net.cuda()\n",
            "no order is known",
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.call
        if call is None or not call.positional:
            return
        where = residence(site.context)
        source = text(call.positional[0].value)
        function = site.module.function(call.node)
        for name in dict.fromkeys(_PARAMETERS.findall(source)):
            if function is not None and name in where.parameters(function):
                yield from self._made_for(site.context, function, name)
            move = next((m for part in prefixes(name) if (m := move_after(where, part, call.node)) is not None), None)
            if move is None:
                continue
            line = move.node.start_point[0] + 1
            yield site.context.finding(
                self,
                statement(call.node),
                f"built over the parameters of `{name}`, which line {line} moves: state made before that stays behind; move the "
                "model first, then build the optimizer (and load its state)",
                Safety.MANUAL,
            )
            return

    def _made_for(self, context: Context, function: Node, parameter: str) -> Iterator[Finding]:
        """Calls of a function that builds an optimizer for the model it is given, before that model is moved."""
        where = residence(context)
        for call in where.callers(function):
            given = next((a.value for name, a in where.matched(function, call) if name == parameter), None)
            if given is None or given.type not in ("identifier", "attribute"):
                continue
            move = move_after(where, text(given), call.node)
            if move is not None:
                line = move.node.start_point[0] + 1
                yield context.finding(
                    self,
                    statement(call.node),
                    f"builds an optimizer for `{text(given)}`, which line {line} moves: move the model first",
                    Safety.MANUAL,
                )


class CopyLeftBehind(PythonRule):
    """A copy of a model (an average of its weights, a target network) made before the model is moved.

    The original goes to the device, the copy stays: the first update that mixes both fails.

    Instead: copy after the move, or move the copy too.
    """

    code = "ADQ06"
    name = "copy-left-behind"
    summary = "a copy made before the move stays behind"
    anchors = ("deepcopy", "clone", "AveragedModel", "ExponentialMovingAverage", "ModelEma", "ModelEmaV2")
    needs = (
        r"deepcopy\(|\.clone\(\)",
        r"state_dict\(|parameters\(|deepcopy\(",
        r"\.to\(|\.cuda\(",
        (r"class \w*(?:EMA|Ema|ema|Average)", SCRIPT),
    )
    examples = (
        Example(
            "an average of the weights",
            _HEAD
            + "net = nn.Linear(2, 2)\nema = copy.deepcopy(net)\nnet.to(device)\nfor p, q in zip(net.parameters(), ema.parameters()):\n"
            "    q.data.mul_(0.9).add_(p.data)\n",
        ),
        Example(
            "a class that copies",
            _HEAD + "class Average:\n    def __init__(self, model):\n        self.model = copy.deepcopy(model)\n"
            "    def update(self, model):\n        pass\n"
            "net = nn.Linear(2, 2)\naverage = Average(net)\nnet = net.to(device)\naverage.update(net)\n",
        ),
        Example(
            "weights kept by name",
            _HEAD
            + "net = nn.Linear(2, 2)\nshadow = {k: v.detach().clone() for k, v in net.state_dict().items()}\nnet.cuda()\n"
            "for k, v in net.state_dict().items():\n    shadow[k].lerp_(v, 0.1)\n",
        ),
    )
    leaves = (
        Leave(
            _HEAD + "net = nn.Linear(2, 2)\nnet.to(device)\nema = copy.deepcopy(net)\nema(x)\n", "copied after the move"
        ),
        Leave(
            _HEAD + "net = nn.Linear(2, 2)\nema = copy.deepcopy(net)\nnet.to(device)\nema.to(device)\nema(x)\n",
            "moved as well",
        ),
        Leave(
            _HEAD
            + "net = nn.Linear(2, 2)\nbest = copy.deepcopy(net.state_dict())\nnet.to(device)\nnet.load_state_dict(best)\n",
            "load_state_dict copies across devices",
        ),
        Leave(
            _HEAD
            + "class A(nn.Module):\n    def __init__(self, net):\n        super().__init__()\n        self.net = net\n"
            "        self.ema = copy.deepcopy(net)\n",
            "both are submodules and move together",
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.method_call if site.word == "clone" else site.call
        if call is None or not residence(site.context).has_moves:
            return
        if site.word != "clone":
            yield from self._copied(site, call)
        else:
            yield from self._cloned(site, call)

    def _copied(self, site: Site, call: Call) -> Iterator[Finding]:
        where = residence(site.context)
        argument = call.positional[0].value if call.positional else None
        if argument is None or argument.type not in ("identifier", "attribute"):
            return
        kept = _assigned_name(call.node)
        if kept is None:
            yield from self._offloaded(site, call)
            return
        yield from self._through_class(site, where, argument)
        yield from self._report(site.context, where, call.node, text(argument), kept)

    def _offloaded(self, site: Site, call: Call) -> Iterator[Finding]:
        """`backup = copy.deepcopy(net).cpu()`, then called with what is on the device."""
        where = residence(site.context)
        holder = statement(call.node)
        assignment = first_named(holder)
        target = field(assignment, "left") if assignment is not None and assignment.type == "assignment" else None
        value = field(assignment, "right") if assignment is not None else None
        if (
            target is None
            or value is None
            or target.type != "identifier"
            or not re.search(r"\.cpu\(\)|\.to\([\"']cpu", text(value))
        ):
            return
        for use in where.uses(text(target)):
            called = use.parent
            if called is None or called.type != "call" or not same(field(called, "function"), use):
                continue
            if [b.node.id for b in where.reaching(use)] != [target.id] or where.moves_of(text(target), use):
                continue
            if any(where.of(argument.value) is Home.DEVICE for argument in Call(called).arguments):
                line = called.start_point[0] + 1
                yield site.context.finding(
                    self,
                    holder,
                    f"`{text(target)}` is kept on the CPU, and line {line} calls it with what was moved: move it back, "
                    "or call it with `.cpu()`",
                    Safety.MANUAL,
                )
                return

    def _cloned(self, site: Site, call: Call) -> Iterator[Finding]:
        """`{k: v.clone() for k, v in net.state_dict().items()}` and `[p.clone() for p in net.parameters()]`."""
        where = residence(site.context)
        holder = next(
            (a for a in ancestors(call.node) if a.type in ("dictionary_comprehension", "list_comprehension")), None
        )
        if holder is None:
            function = site.module.function(site.leaf)
            if function is not None and re.search(
                r"ema|average|shadow|polyak|copy", _class_name(where, function), re.IGNORECASE
            ):
                loop = next((a for a in ancestors(call.node) if a.type == "for_statement"), None)
                source = (
                    re.search(r"(\w+)\.(?:named_)?(?:parameters|state_dict)\(\)", text(field(loop, "right") or loop))
                    if loop
                    else None
                )
                name = source.group(1) if source is not None else None
                if (
                    name is not None
                    and where.function_name(function) == "__init__"
                    and name in where.parameters(function)
                ):
                    yield from self._made_by(site.context, where, function, name)
            return
        source = re.search(r"(?<![\w.])([\w.]+)\.(?:named_parameters|parameters|state_dict)\(\)", text(holder))
        kept = _assigned_name(holder)
        if source is None or kept is None:
            return
        function = site.module.function(site.leaf)
        if (
            function is not None
            and where.function_name(function) == "__init__"
            and source.group(1) in where.parameters(function)
        ):
            yield from self._made_by(site.context, where, function, source.group(1))
        uses = text(site.module.function(holder) or site.module.root)
        if re.search(rf"load_state_dict\(\s*{re.escape(kept)}\b", uses):
            return
        yield from self._report(site.context, where, holder, source.group(1), kept)

    def _through_class(self, site: Site, where: Residence, argument: Node) -> Iterator[Finding]:
        function = site.module.function(argument)
        if (
            function is None
            or where.function_name(function) != "__init__"
            or text(argument) not in where.parameters(function)
        ):
            return
        yield from self._made_by(site.context, where, function, text(argument))

    def _made_by(self, context: Context, where: Residence, init: Node, parameter: str) -> Iterator[Finding]:
        """The instances of a class that copies what it is given."""
        class_ = where.module.class_(init)
        if class_ is None or re.search(r"device|\.to\(|\.cuda\(", text(init)):
            return
        for call in where.callers(init):
            given = next((a.value for name, a in where.matched(init, call) if name == parameter), None)
            kept = _assigned_name(call.node)
            if given is not None and kept is not None:
                yield from self._report(context, where, call.node, text(given), kept)

    def _report(self, context: Context, where: Residence, node: Node, original: str, kept: str) -> Iterator[Finding]:
        move = move_after(where, original, node)
        if move is None or where.moves_of(kept, node):
            return
        class_ = where.module.class_(node)
        if kept.startswith("self.") and where.is_module_class(class_):
            return
        if not _used_after(where, kept, move.node):
            return
        line = move.node.start_point[0] + 1
        yield context.finding(
            self,
            statement(node),
            f"`{kept}` is a copy made before line {line} moves `{original}`: make it after the move, or move `{kept}` too",
            Safety.MANUAL,
        )


_ENDS = frozenset({"to", "cuda", "cpu", "state_dict"})


def _assigned_name(node: Node) -> str | None:
    """The name or `self.x` that a call's result is given, through `.eval()` and `.requires_grad_(False)`."""
    current = node
    while current.parent is not None and current.parent.type in ("attribute", "call"):
        attribute = field(current.parent, "attribute") if current.parent.type == "attribute" else None
        if attribute is not None and text(attribute) in _ENDS:
            return None
        current = current.parent
    holder = current.parent
    if holder is None or holder.type != "assignment" or not same(field(holder, "right"), current):
        return None
    left = field(holder, "left")
    return text(left) if left is not None and left.type in ("identifier", "attribute") else None


def _used_after(where: Residence, name: str, node: Node) -> bool:
    """Whether `name` is used after `node`, or anywhere in another function."""
    return any(
        leaf.start_byte > node.end_byte or not where.same_function(leaf, node)
        for leaf in where.module.names.occurrences(name.rsplit(".", 1)[-1])
    )


def _class_name(where: Residence, node: Node) -> str:
    class_ = where.module.class_(node)
    name = field(class_, "name") if class_ is not None else None
    return text(name) if name is not None else ""


class LossTensorNotMoved(PythonRule):
    """Class weights given to a loss stay on the CPU: the loss is a module, and nobody moves it.

    Instead: `nn.CrossEntropyLoss(weight=w).to(device)`: the weight is a buffer of the loss.
    """

    code = "ADQ07"
    name = "loss-tensor-not-moved"
    summary = "the weights of a loss stay on the CPU"
    anchors = (
        "CrossEntropyLoss",
        "NLLLoss",
        "NLLLoss2d",
        "BCELoss",
        "BCEWithLogitsLoss",
        "MultiMarginLoss",
        "MultiLabelSoftMarginLoss",
        "cross_entropy",
        "nll_loss",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
    )
    examples = (
        Example(
            "weights of classes",
            _HEAD + 'device = torch.device("cpu" if args.cpu else "mps")\nw = torch.tensor([1.0, 4.0])\n'
            "criterion = nn.CrossEntropyLoss(weight=w)\nnet.to(device)\n",
            _HEAD + 'device = torch.device("cpu" if args.cpu else "mps")\nw = torch.tensor([1.0, 4.0])\n'
            "criterion = nn.CrossEntropyLoss(weight=w).to(device)\nnet.to(device)\n",
        ),
        Example(
            "no device in sight",
            _HEAD + "def make():\n    return nn.BCEWithLogitsLoss(pos_weight=torch.ones(3) * 2)\nnet.to(pick())\n",
        ),
        Example(
            "a function",
            _HEAD + "import torch.nn.functional as F\nw = torch.ones(3)\nout = net(x.to(device)).to(device)\n"
            "loss = F.cross_entropy(out, y, weight=w)\n",
            _HEAD + "import torch.nn.functional as F\nw = torch.ones(3)\nout = net(x.to(device)).to(device)\n"
            "loss = F.cross_entropy(out, y, weight=w.to(out.device))\n",
        ),
    )
    leaves = (
        Leave(
            _HEAD + "net.to(device)\nc = nn.CrossEntropyLoss(weight=torch.ones(3)).to(device)\n",
            "moved when it is made",
        ),
        Leave(
            _HEAD + "net.to(device)\nc = nn.CrossEntropyLoss(weight=torch.ones(3).to(device))\n", "its weight is moved"
        ),
        Leave(_HEAD + "net.to(device)\nc = nn.CrossEntropyLoss(weight=torch.ones(3))\nc.to(device)\n", "moved later"),
        Leave(_HEAD + "net.to(device)\nc = nn.CrossEntropyLoss(ignore_index=0)\n", "has no weight"),
        Leave(
            _HEAD + "net.to(device)\nc = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0))\n",
            "a single number may stay",
        ),
        Leave(
            _HEAD + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.c = nn.CrossEntropyLoss(weight=torch.ones(3))\nA().to(device)\n",
            "moves with the module that holds it",
        ),
        Leave(_HEAD + "c = nn.CrossEntropyLoss(weight=torch.ones(3))\n", "nothing is moved at all"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.call
        name = site.qualname or ""
        if call is None or not call.arguments or not name.startswith("torch.nn."):
            return
        weights = self._weights(site, call)
        where = residence(site.context)
        weight = next((a for a in weights if where.of(a.value) is Home.CPU), None)
        if weight is None:
            return
        if site.word[0].islower():
            yield from self._function(site, call, weight)
        elif not self._moves(site, call):
            yield self._module(site, call, weight)

    def _weights(self, site: Site, call: Call) -> list[Argument]:
        position = None if site.word in ("MultiMarginLoss",) else 2 if site.word[0].islower() else 0
        found = [call.keyword("weight"), call.keyword("pos_weight")]
        if position is not None and position < len(call.positional):
            found.append(call.positional[position])
        return [a for a in found if a is not None]

    def _function(self, site: Site, call: Call, weight: Argument) -> Iterator[Finding]:
        where = residence(site.context)
        output = call.argument(0, "input")
        if output is None or where.of(output.value) is not Home.DEVICE or self._is_made_here(site, weight):
            return
        shown = text(output.value) if output.value.type in ("identifier", "attribute") else None
        moved = f"{text(weight.value)}.to({shown or 'input'}.device)"
        message = f"the weight `{text(weight.value)[:40]}` is on the CPU, the input is not; write `{moved}`"
        if shown is None or weight.value.type not in ("identifier", "attribute", "call", "subscript"):
            yield site.context.finding(self, call.node, message, Safety.MANUAL)
            return
        yield site.context.finding(
            self, call.node, message, Safety.UNSAFE, [site.module.insert(weight.value.end_byte, f".to({shown}.device)")]
        )

    def _is_made_here(self, site: Site, weight: Argument) -> bool:
        """Whether the weight is made in the same function: then its factory is to blame."""
        function = site.module.function(site.leaf)
        if function is None:
            return False
        if weight.value.type == "call":
            return True
        bindings = residence(site.context).reaching(weight.value) if weight.value.type == "identifier" else []
        return any(same(b.scope, function) and b.kind == "assignment" for b in bindings)

    def _moves(self, site: Site, call: Call) -> bool:
        """Whether the loss gets to the device, as far as this file tells."""
        where, module = residence(site.context), site.module
        parent = call.node.parent
        if parent is not None and parent.type == "attribute":
            return True
        if not where.has_moves:
            return True
        if where.is_module_class(module.class_(call.node)) and not _is_script(where, call.node):
            return True
        kept = _assigned_name(call.node)
        return kept is not None and bool(where.moves_of(kept, call.node))

    def _module(self, site: Site, call: Call, weight: Argument) -> Finding:
        context = site.context
        device = device_at(context, call.node)
        shown = device or "device"
        message = (
            f"the weight `{text(weight.value)[:40]}` stays on the CPU; write `{text(call.function)}(...).to({shown})`"
        )
        edits = [] if device is None else [site.module.insert(call.node.end_byte, f".to({device})")]
        return context.finding(self, call.node, message, Safety.SAFE if edits else Safety.MANUAL, edits)


def _is_script(where: Residence, node: Node) -> bool:
    """Whether a node of a module class is made for a moment only: no attribute of the module keeps it."""
    holder = statement(node)
    inner = first_named(holder)
    left = field(inner, "left") if inner is not None and inner.type == "assignment" else None
    return left is None or not text(left).startswith("self.")
