"""Group Q, copies: of models and their weights, made before the move and left behind by it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.home import Home
from anydevice.rules.moves import moves_of
from anydevice.rules.order import assigned_name, move_after, used_after
from anydevice.rules.residence import Residence, residence
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.rules.tensor_words import SCRIPT
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, field, first_named, same, statement, text

_HEAD = "import copy\nimport torch\nfrom torch import nn\n"


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
        kept = assigned_name(call.node)
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
            if [b.node.id for b in where.reaching(use)] != [target.id] or moves_of(where, text(target), use):
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
        kept = assigned_name(holder)
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
            kept = assigned_name(call.node)
            if given is not None and kept is not None:
                yield from self._report(context, where, call.node, text(given), kept)

    def _report(self, context: Context, where: Residence, node: Node, original: str, kept: str) -> Iterator[Finding]:
        move = move_after(where, original, node)
        if move is None or moves_of(where, kept, node):
            return
        class_ = where.module.class_(node)
        if kept.startswith("self.") and where.is_module_class(class_):
            return
        if not used_after(where, kept, move.node):
            return
        line = move.node.start_point[0] + 1
        yield context.finding(
            self,
            statement(node),
            f"`{kept}` is a copy made before line {line} moves `{original}`: make it after the move, or move `{kept}` too",
            Safety.MANUAL,
        )


def _class_name(where: Residence, node: Node) -> str:
    class_ = where.module.class_(node)
    name = field(class_, "name") if class_ is not None else None
    return text(name) if name is not None else ""
