"""Group B: questions whether there is CUDA, and what programs do about the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.availability import chosen_literals, guarded, has_cuda_only
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, field, first_named, same, statement, string_value, strip_parens, text

_OTHERS = re.compile(r"\b(?:mps|xpu|npu|mlu|hpu)\b")


class CudaAvailabilityCheck(PythonRule):
    """`torch.cuda.is_available()` as a question about any GPU: `use_cuda = ...`, `if ...: x = x.to(device)`.

    Instead: `torch.accelerator.is_available()`. A guard of code that exists on CUDA only (kernels, CUDA-only calls) is
    right as it is and left alone.
    """

    code = "ADB02"
    name = "cuda-availability-check"
    summary = "asks for CUDA where any accelerator will do"
    anchors = ("is_available",)
    needs = (r"cuda|accelerator\.is_available",)
    examples = (
        Example(
            "a flag",
            "import torch\nuse_cuda = torch.cuda.is_available()\n",
            "import torch\nuse_cuda = torch.accelerator.is_available()\n",
        ),
        Example(
            "a branch",
            "import torch\nif torch.cuda.is_available():\n    x = x.cuda()\n",
            "import torch\nif torch.accelerator.is_available():\n    x = x.cuda()\n",
        ),
        Example(
            "a flag that chooses the device and prints what CUDA says of it",
            "import torch\ncuda = not cpu and torch.cuda.is_available()\nif cuda:\n"
            "    print(torch.cuda.get_device_name(0))\nmodel = model.cuda() if cuda else model\n",
            "import torch\ncuda = not cpu and torch.accelerator.is_available()\nif cuda:\n"
            "    print(torch.cuda.get_device_name(0))\nmodel = model.cuda() if cuda else model\n",
        ),
        Example(
            "an old torch",
            "import torch\nuse_cuda = torch.cuda.is_available()\n",
            'import torch\nuse_cuda = device.type != "cpu"\n',
            torch="1.7",
        ),
    )
    leaves = (
        Leave(
            "import torch\nif torch.cuda.is_available():\n    torch.cuda.nvtx.mark('a')\n", "guards what only CUDA has"
        ),
        Leave(
            "import torch\nif torch.cuda.is_available():\n    show(torch.cuda.get_device_properties(0))\n    m.cuda()\n",
            "nothing can stand in for what is handed on",
        ),
        Leave("import torch\nif torch.backends.mps.is_available():\n    pass\n", "not about CUDA"),
        Leave(
            "import torch\nif torch.cuda.is_available():\n    n = 1\nelif torch.backends.mps.is_available():\n    n = 2\n",
            "one of several accelerators",
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if site.qualname != "torch.cuda.is_available" or site.call is None or site.is_import:
            return
        context, question = site.context, site.call.node
        if chosen_literals(context, question) or _among_others(question) or _guards_cuda_only(context, question):
            return
        if _about_cuda_itself(question):
            return
        available = context.placement.available(question)
        yield context.finding(
            self,
            question,
            f"asks for CUDA where any accelerator will do; write `{available.text}`",
            Safety.SAFE,
            [site.module.replace(question, available.text), *available.edits],
        )


def _among_others(question: Node) -> bool:
    """Whether the statement (or its elif chain, or the dict around) asks for other accelerators as well."""
    owner = statement(question)
    condition = field(owner, "condition") if owner.type == "if_statement" else None
    if condition is None:
        return bool(_OTHERS.search(text(owner)))
    clauses = [c for c in owner.children if c.type == "elif_clause"]
    asked = [condition, *(c for clause in clauses if (c := field(clause, "condition")) is not None)]
    return any(_OTHERS.search(text(node)) for node in asked)


def _joined(question: Node) -> Iterator[Node]:
    """What is only asked where the answer to `question` is yes: the `b` of `question and b`."""
    current = question
    for parent in ancestors(question):
        if parent.type not in ("boolean_operator", "parenthesized_expression"):
            return
        operator, right = field(parent, "operator"), field(parent, "right")
        if operator is not None and operator.type == "and" and right is not None and not same(right, current):
            yield right
        current = parent


# A class that splits batches over GPUs itself, as nn.DataParallel does: only CUDA can.
_SPLITS_BATCHES = re.compile(r"\b(?:scatter_kwargs|parallel_apply)\(")


# A branch that is there to use the device.
_CHOOSES = re.compile(r"""\.cuda\(|["']cuda|\.to\(|device(?:_for)?\(|\Adevice\Z""")


def _about_cuda_itself(question: Node) -> bool:
    """Whether only CUDA will do: to read what was saved on CUDA, to pin memory (which MPS cannot), to decode on a GPU."""
    for parent in ancestors(question):
        if parent.type == "keyword_argument":
            return text(field(parent, "name") or parent) in ("map_location", "pin_memory")
        if parent.type in ("default_parameter", "typed_default_parameter"):
            return text(field(parent, "name") or parent) == "pin_memory"
        if parent.type == "pair":
            return string_value(field(parent, "key") or parent) == "pin_memory"
        if parent.type == "conditional_expression" and re.search(r"\.pin_memory\(\)|\bgpu\(", text(parent)):
            return True
        if parent.type == "assignment":
            return bool(re.search(r"\b(?:pin_memory|map_loc\w*)\b", text(field(parent, "left") or parent)))
        if parent.type == "call" and text(Call(parent).function).endswith(("torch.load", "jit.load", "DataLoader")):
            return True
        if parent.type in ("block", "module"):
            return False
    return False


def _guards_cuda_only(context: Context, question: Node) -> bool:
    holder = context.module.class_(question)
    if holder is not None and _SPLITS_BATCHES.search(text(holder)):
        return True
    if any(has_cuda_only(context, side) for side in _joined(question)):
        return True
    region = guarded(question)
    if region is not None:
        return has_cuda_only(context, region[1])
    parent = question.parent
    while parent is not None and parent.type in ("boolean_operator", "parenthesized_expression", "not_operator"):
        parent = parent.parent
    if parent is not None and parent.type == "boolean_operator":
        return False
    if parent is not None and parent.type == "assignment":
        target = field(parent, "left")
        if target is not None and target.type == "identifier":
            names = context.module.names
            uses = [u for u in names.references(text(target)) if any(same(b.node, target) for b in names.lookup(u))]
            branches = [r[1] for use in uses if (r := guarded(use)) is not None]
            gains = any(_CHOOSES.search(text(branch)) for branch in branches)
            return any(has_cuda_only(context, branch, gains) for branch in branches)
    # `torch.cuda.is_available() and torch.cuda.is_bf16_supported()`: the rest of the condition
    return False


class AvailabilityNotCalled(PythonRule):
    """`if torch.cuda.is_available:` tests the function itself, which is always true.

    Instead: call it. On a CUDA machine nothing changes.
    """

    code = "ADB03"
    name = "availability-not-called"
    summary = "`torch.cuda.is_available` is never called, so always true"
    anchors = ("is_available",)
    needs = (r"cuda|accelerator\.is_available",)
    examples = (
        Example(
            "a condition",
            "import torch\nif torch.cuda.is_available:\n    pass\n",
            "import torch\nif torch.cuda.is_available():\n    pass\n",
        ),
        Example(
            "a conditional",
            'import torch\nd = "cuda" if torch.cuda.is_available else "cpu"\n',
            'import torch\nd = "cuda" if torch.cuda.is_available() else "cpu"\n',
        ),
    )
    leaves = (Leave("import torch\ncheck = torch.cuda.is_available\n", "the function is handed on on purpose"),)
    _TESTS = frozenset(
        {
            "if_statement",
            "elif_clause",
            "while_statement",
            "conditional_expression",
            "not_operator",
            "boolean_operator",
            "assert_statement",
        }
    )

    def check(self, site: Site) -> Iterator[Finding]:
        parent = site.reference.parent
        if site.qualname == "torch.cuda.is_available" and parent is not None and parent.type in self._TESTS:
            yield site.context.finding(
                self,
                site.reference,
                "the function is tested, not its answer: add `()`",
                Safety.SAFE,
                [site.module.insert(site.reference.end_byte, "()")],
            )


class CpuRefused(PythonRule):
    """`assert torch.accelerator.is_available()` and `if not ...: raise` or `exit` refuse to run on a CPU.

    Once the code follows the device, it runs there, though slowly. Instead: nothing, or a warning.
    """

    code = "ADB04"
    name = "cpu-refused"
    summary = "refuses to run without an accelerator"
    anchors = ("is_available",)
    needs = (r"cuda|accelerator\.is_available",)
    examples = (
        Example("an assertion", "import torch\nassert torch.accelerator.is_available()\n", "import torch\npass\n"),
        Example(
            "a message",
            'import torch\nif not torch.cuda.is_available():\n    raise RuntimeError("needs a GPU")\n',
            'import torch\nif not torch.cuda.is_available():\n    print("needs a GPU")\n',
        ),
    )
    leaves = (
        Leave(
            "import torch\nif args.cuda and not torch.cuda.is_available():\n    raise ValueError('no GPU')\n",
            "only where a GPU was asked for",
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if site.qualname not in ("torch.cuda.is_available", "torch.accelerator.is_available") or site.call is None:
            return
        owner = statement(site.call.node)
        context = site.context
        if owner.type == "assert_statement" and same(_condition(owner), site.call.node):
            yield context.finding(
                self,
                owner,
                "the code can run on the CPU once it is rewritten: drop the assertion",
                Safety.UNSAFE,
                [site.module.replace(owner, "pass")],
            )
        elif owner.type == "if_statement" and owner.named_child_count == 2:
            yield from self._raised(site, owner)

    def _raised(self, site: Site, owner: Node) -> Iterator[Finding]:
        condition, body = field(owner, "condition"), field(owner, "consequence")
        if condition is None or body is None or body.named_child_count != 1:
            return
        condition = strip_parens(condition)
        inner = field(condition, "argument") if condition.type == "not_operator" else None
        last = first_named(body)
        if inner is None or site.call is None or not same(strip_parens(inner), site.call.node) or last is None:
            return
        edits: list[Edit] = []
        if last.type == "raise_statement":
            made = next((c for c in last.named_children if c.type == "call"), None)
            arguments = text(Call(made).argument_list) if made is not None else "()"
            edits = [site.module.replace(last, f"print{arguments}")]
        elif last.type == "expression_statement" and re.match(r"(?:sys\.|os\._?)?exit\(|quit\(", text(last)):
            edits = [site.module.replace(last, "pass")]
        if edits:
            yield site.context.finding(
                self,
                owner,
                "the code can run on the CPU once it is rewritten: warn instead of stopping",
                Safety.UNSAFE,
                edits,
            )


def _condition(owner: Node) -> Node | None:
    first = first_named(owner)
    return strip_parens(first) if first is not None else None
