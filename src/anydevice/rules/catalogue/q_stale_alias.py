"""Group Q, second names: who still holds the tensor that a move has replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.classes import attributes, moves_itself, used_later
from anydevice.rules.contents import stale_root
from anydevice.rules.home import Home
from anydevice.rules.moves import move_target
from anydevice.rules.order import move_after, prefixes
from anydevice.rules.residence import Residence, residence
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.rules.tensor_words import SCRIPT
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, field, same, string_value, text

_HEAD = "import torch\nfrom torch import nn\n"
_LISTED = frozenset({"list", "tuple", "pair", "dictionary", "expression_list"})


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
    anchors = (
        "register_buffer",
        "Parameter",
        "to",
        "cuda",
        "named_buffers",
        "buffers",
        "state_dict",
        "running_mean",
        "running_var",
    )
    needs = (
        (r"register_buffer", SCRIPT, r"Parameter\("),
        (
            r"self\.\w+ = self\.\w+(?:\n|\.(?:t|T|view|data|detach|transpose|reshape|permute|weight|(?:un)?squeeze)\b)",
            r"self\.\w+ = [\[{(][^\n]*self\.",
            r"running_mean\b|running_var\b|_buffers\(",
            SCRIPT,
        ),
    )
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
        Example(
            "a loop that changes nothing",
            "import torch\nfor key, value in batch.items():\n    value = value.to(device)\n",
        ),
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
        Leave(
            "import torch\nx = torch.zeros(3)\nx = x.to(device)\nbatch = {'x': x}\nnet(batch)\n", "made after the move"
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if site.word in ("register_buffer", "Parameter"):
            yield from _aliases(site.context, self)
            if site.word == "register_buffer" and site.method_call is not None and site.method_call.positional:
                name = string_value(site.method_call.positional[0].value)
                for leaf in site.module.names.occurrences(name) if name else ():
                    yield from self._taken_out(site, leaf)
            return
        if site.word.startswith("running_"):
            yield from self._taken_out(site, site.leaf)
            return
        if site.method_call is None:
            return
        if site.word in ("to", "cuda"):
            yield from self._rebound(site, site.method_call)
        else:
            yield from self._listed(site, site.method_call)

    def _listed(self, site: Site, call: Call) -> Iterator[Finding]:
        """`tensors = dict(net.named_buffers())` before `net.to(device)`."""
        where, receiver = residence(site.context), call.receiver
        if receiver is None or receiver.type not in ("identifier", "attribute") or not where.has_moves:
            return
        holder = call.node.parent
        while holder is not None and holder.type in ("argument_list", "call"):
            if holder.type == "call" and text(Call(holder).function) not in ("dict", "list", "tuple", "OrderedDict"):
                return
            holder = holder.parent
        kept = field(holder, "left") if holder is not None and holder.type == "assignment" else None
        move = move_after(where, text(receiver), call.node) if kept is not None else None
        if holder is None or kept is None or kept.type != "identifier" or move is None:
            return
        if _read_later(where, kept, move.node, holder) and not any(
            self._is_copied(use) for use in where.uses(text(kept))
        ):
            line = move.node.start_point[0] + 1
            yield site.context.finding(
                self,
                holder,
                f"`{text(kept)}` keeps the tensors that line {line} replaces: take `{text(call.node)}` after the move",
                Safety.MANUAL,
            )

    def _taken_out(self, site: Site, leaf: Node) -> Iterator[Finding]:
        """`mean = net.running_mean` (or a container of such) before `net.to(device)`."""
        where, attribute = residence(site.context), leaf.parent
        owner = field(attribute, "object") if attribute is not None and attribute.type == "attribute" else None
        if owner is None or text(owner) == "self" or owner.type not in ("identifier", "attribute"):
            return
        holder = attribute.parent if attribute is not None else None
        while holder is not None and holder.type in ("list", "tuple", "pair", "dictionary", "subscript"):
            holder = holder.parent
        kept = field(holder, "left") if holder is not None and holder.type == "assignment" else None
        if holder is None or kept is None or kept.type != "identifier":
            return
        move = next((m for name in prefixes(text(owner)) if (m := move_after(where, name, holder)) is not None), None)
        if move is None:
            return
        if _read_later(where, kept, move.node, holder):
            line = move.node.start_point[0] + 1
            yield site.context.finding(
                self,
                holder,
                f"`{text(kept)}` keeps the buffer that line {line} replaces: take it after the move",
                Safety.MANUAL,
            )

    def _is_copied(self, use: Node) -> bool:
        """Whether what is kept only goes to load_state_dict or a file, which take tensors from anywhere."""
        call = use.parent.parent if use.parent is not None and use.parent.type == "argument_list" else None
        return call is not None and text(Call(call).function).rsplit(".", 1)[-1] in (
            "load_state_dict",
            "save",
            "len",
            "print",
        )

    def _rebound(self, site: Site, call: Call) -> Iterator[Finding]:
        """`x = x.to(device)`: who else holds the old x?"""
        assignment = call.node.parent
        target = field(assignment, "left") if assignment is not None and assignment.type == "assignment" else None
        if (
            target is None
            or target.type != "identifier"
            or call.receiver is None
            or text(target) != text(call.receiver)
        ):
            return
        where, name = residence(site.context), text(target)
        if where.runs_after_move(site.module.function(target)):
            return
        loop = next((a for a in ancestors(call.node) if a.type == "for_statement"), None)
        bound = set(re.findall(r"\w+", text(field(loop, "left") or loop))) if loop is not None else set()
        if move_target(where, call) in (None, Home.CPU):
            return
        if loop is not None and name in bound:
            if self._changes_nothing(where, loop, call.node, name):
                yield site.context.finding(
                    self,
                    call.node.parent or call.node,
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
        inside = [
            leaf for leaf in where.module.names.occurrences(name) if move.end_byte < leaf.start_byte < loop.end_byte
        ]
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
        word = name.encode()
        if (
            re.search(
                rb"=[ \t]*" + word + rb"[ \t]*\n|=[ \t]*[\[({][^\n]*\b" + word + rb"\b|[\"']\s*:\s*" + word + rb"\b",
                before,
            )
            is None
        ):
            return
        if receiver is None or where.of(receiver) is not Home.CPU:
            return
        for use in where.uses(name):
            if use.start_byte >= call.node.start_byte or not same(site.module.scope(use), scope):
                continue
            holder = next((a for a in ancestors(use) if a.type not in _LISTED), None)
            if holder is None or holder.type != "assignment":
                continue
            kept = field(holder, "left")
            if (
                kept is None
                or kept.type != "identifier"
                or text(kept) == name
                or (field(holder, "right") or kept).type == "expression_list"
            ):
                continue
            if _read_later(where, kept, call.node, holder):
                line = call.node.start_point[0] + 1
                yield site.context.finding(
                    self,
                    holder,
                    f"`{text(kept)}` keeps the `{name}` that line {line} moves: build it after the move",
                    Safety.MANUAL,
                )


@lru_cache(maxsize=2)
def _aliases(context: Context, rule: StaleTensorAlias) -> tuple[Finding, ...]:
    where, found = residence(context), []
    for attribute in attributes(context):
        if where.registered(attribute.class_, attribute.name) or moves_itself(attribute.class_):
            continue
        root = stale_root(where, attribute)
        if root is None or not used_later(where, attribute):
            continue
        if any(
            where.runs_after_move(context.module.function(t))
            for t, _ in where.attribute_values(attribute.class_, attribute.name)
        ):
            continue
        found.append(
            context.finding(
                rule,
                attribute.statement,
                f"`self.{attribute.name}` keeps the `{root}` of construction, which `.to(device)` replaces: take `{root}` where "
                "it is used",
                Safety.MANUAL,
            )
        )
    return tuple(found)


def _read_later(where: Residence, kept: Node, move: Node, made: Node) -> bool:
    """Whether what the assignment `made` gave to `kept` is read after a move."""
    return any(u.start_byte > move.end_byte and _is_read(where, u, made) for u in where.uses(text(kept)))


def _is_read(where: Residence, use: Node, made: Node) -> bool:
    """Whether the old container is read at `use`, and not moved there."""
    bindings = where.reaching(use)
    if not any(b.node.id == getattr(field(made, "left"), "id", None) for b in bindings):
        return False
    statement_text = next((text(a) for a in ancestors(use) if a.type.endswith("statement")), "")
    return ".to(" not in statement_text and ".cuda(" not in statement_text
