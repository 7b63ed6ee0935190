"""Group G, first part: seeds."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.cuda_api import RANDOM, member
from anydevice.rules.cuda_calls import is_statement
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Call
from anydevice.source.syntax import field, first_named, same, statement, text

SEEDS = frozenset({"manual_seed", "manual_seed_all", "seed", "seed_all"})
_PURE = re.compile(r"[\w.\[\]'\"\s+*-]*\Z|int\([\w.\s+*-]*\)\Z")
_HARMLESS = re.compile(r"\b(?:is_available|device_count)\(\)|\b(?:not|and|or|in|is)\b")
# Statements that draw no random number and change no seed: looked past for the seeding that makes another redundant.
_NEUTRAL = re.compile(
    r"(?:\w+\.)*(?:seed|seed_all|manual_seed|manual_seed_all|set_seed|seed_everything|use_deterministic_algorithms|print|info)\("
    r"|(?:torch\.backends\.)?cudnn\.\w+\s*=|torch\.backends\.|os\.environ\b|(?:import|from)\s"
)


class CudaSeed(PythonRule):
    """`torch.cuda.manual_seed(s)` seeds CUDA alone; `torch.manual_seed(s)` seeds every device, CUDA included.

    Instead: drop it where `torch.manual_seed` has the same value beside it, else seed everything. Without CUDA the call
    does nothing, so it is no failure, but other accelerators stay unseeded.
    """

    code = "ADG01"
    name = "cuda-seed"
    summary = "only CUDA is seeded"
    anchors = ("manual_seed_all", "manual_seed", "cuda")
    needs = ("cuda",)
    examples = (
        Example(
            "beside torch.manual_seed",
            "import torch\ntorch.manual_seed(seed)\ntorch.cuda.manual_seed_all(seed)\nf()\n",
            "import torch\ntorch.manual_seed(seed)\nf()\n",
        ),
        Example(
            "behind a question",
            "import torch\ntorch.manual_seed(args.seed)\nif args.cuda:\n    torch.cuda.manual_seed(args.seed)\nf()\n",
            "import torch\ntorch.manual_seed(args.seed)\nf()\n",
        ),
        Example(
            "with others between",
            "import torch\ndef seed_all(s):\n    torch.cuda.manual_seed(s)\n    np.random.seed(s)\n    torch.manual_seed(s)\n",
            "import torch\ndef seed_all(s):\n    np.random.seed(s)\n    torch.manual_seed(s)\n",
        ),
        Example("alone", "import torch\ntorch.cuda.manual_seed(1)\n", "import torch\ntorch.manual_seed(1)\n"),
        Example("another value", "import torch\ntorch.manual_seed(seed)\ntorch.cuda.manual_seed(seed + rank)\n"),
    )
    leaves = (
        Leave("import torch\ntorch.manual_seed(1)\n", "seeds every device"),
        Leave("import random\nrandom.seed(1)\n", "not torch"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        name = member(site.qualname)
        if name not in SEEDS or site.is_import:
            return
        context, call = site.context, site.call
        whole = RANDOM[name].counterpart
        torch = context.placement.torch_name(site.reference)
        if call is None:
            yield context.finding(
                self,
                site.reference,
                f"seeds CUDA alone: hand on `{torch.text}.{whole}`, which seeds every device",
                Safety.MANUAL,
            )
            return
        argument = call.argument(0, "seed")
        value = text(argument.value) if argument is not None else ""
        if is_statement(context, call) and _PURE.match(value) and _seeded_beside(context, call, whole, value):
            yield context.finding(
                self,
                call.node,
                f"`{torch.text}.{whole}({value})` beside it seeds every device: drop this",
                Safety.SAFE,
                _removal(context, call),
            )
            return
        owner = context.module.function(call.node) or context.module.root
        alone = not re.search(r"\b(?:torch|th|T)\.(?:random\.)?manual_seed\(", text(owner))
        new = f"{torch.text}.{whole}({value})"
        edits: list[Edit] = [context.module.replace(call.function, f"{torch.text}.{whole}"), *torch.edits]
        yield context.finding(
            self,
            call.node,
            f"seeds CUDA alone; `{new}` seeds every device, the CPU too",
            Safety.UNSAFE if alone else Safety.MANUAL,
            edits,
        )


def _seeded_beside(context: Context, call: Call, whole: str, value: str) -> bool:
    """Whether `torch.manual_seed` of the same value runs right before or after, with nothing of weight between."""
    owner = statement(call.node)
    for _ in range(3):  # the block itself, and the blocks around its `if`
        for step in ("prev_named_sibling", "next_named_sibling"):
            sibling = getattr(owner, step)
            while sibling is not None:
                if _seeds(context, sibling, whole, value):
                    return True
                if not _is_neutral(sibling):
                    break
                sibling = getattr(sibling, step)
        block = owner.parent
        outer = block.parent if block is not None else None
        if (
            outer is None
            or outer.type != "if_statement"
            or any(c.type in ("else_clause", "elif_clause") for c in outer.children)
        ):
            return False
        owner = outer
    return False


def _seeds(context: Context, node: Node, whole: str, value: str) -> bool:
    inner = first_named(node) if node.type == "expression_statement" else None
    if inner is None or inner.type != "call":
        return False
    call = Call(inner)
    if context.module.qualname(call.function) not in (f"torch.{whole}", f"torch.random.{whole}"):
        return False
    argument = call.argument(0, "seed")
    return (text(argument.value) if argument is not None else "") == value


def _is_neutral(node: Node) -> bool:
    if node.type == "comment":
        return True
    if node.type == "if_statement":
        block = field(node, "consequence")
        return (
            block is not None
            and node.named_child_count == 2
            and all(_is_neutral(child) for child in block.named_children)
        )
    return bool(_NEUTRAL.match(text(node)))


def _removal(context: Context, call: Call) -> list[Edit]:
    """The edits that take the statement away, with the `if` that held nothing else."""
    module, owner = context.module, statement(call.node)
    block = owner.parent
    outer = block.parent if block is not None and block.type == "block" else None
    if block is not None and outer is not None:
        rest = [child for child in block.named_children if child.type != "comment" and not same(child, owner)]
        only_seeds = all(_is_cuda_seed(context, child) for child in rest)
        question = field(outer, "condition") if outer.type == "if_statement" else None
        if only_seeds and question is not None and outer.named_child_count == 2 and module.starts_line(outer):
            if not re.search(r"\w\s*\(", _HARMLESS.sub("", text(question))):
                owner = outer
            else:
                return [module.replace(call.node, "pass")]
        elif not rest:
            return [module.replace(call.node, "pass")]
    return [module.edit(module.line_start(owner.start_byte), module.line_end(owner.end_byte - 1), "")]


def _is_cuda_seed(context: Context, node: Node) -> bool:
    inner = first_named(node) if node.type == "expression_statement" else None
    if inner is None or inner.type != "call":
        return False
    call = Call(inner)
    name = member(context.module.qualname(call.function))
    argument = call.argument(0, "seed")
    value = text(argument.value) if argument is not None else ""
    return name in SEEDS and bool(_PURE.match(value)) and _seeded_beside(context, call, RANDOM[name].counterpart, value)
