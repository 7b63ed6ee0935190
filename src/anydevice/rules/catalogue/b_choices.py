"""Group B, first part: questions whether there is CUDA, and the choice between CUDA and the CPU that hangs on them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.cuda_api import Fate, is_guardable, is_portable, lookup
from anydevice.rules.literal import DeviceLiteral, device_literal
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Call
from anydevice.source.syntax import (
    ancestors,
    field,
    first_named,
    same,
    statement,
    string_value,
    strip_parens,
    text,
    walk,
)

_OWN_SETTINGS = re.compile(r"backends\.cuda\.|_C\._cuda")
_MOVES = re.compile(r"""\.cuda\(|["']cuda|\.to\(""")
_OTHERS = re.compile(r"\b(?:mps|xpu|npu|mlu|hpu)\b")


class CudaOrCpuChoice(PythonRule):
    """`"cuda" if torch.cuda.is_available() else "cpu"` never picks the GPU of a Mac (mps) or of Intel (xpu).

    Instead: `torch.accelerator.current_accelerator()` where `torch.accelerator.is_available()`, which on a CUDA machine
    is the same device. For a torch before 2.6 the choice between cuda, xpu, mps and cpu is spelled out once.

    References: https://docs.pytorch.org/docs/stable/accelerator.html
    """

    code = "ADB01"
    name = "cuda-or-cpu-choice"
    summary = "the choice is between CUDA and the CPU only"
    anchors = ("is_available",)
    needs = (r"cuda|accelerator\.is_available",)
    examples = (
        Example(
            "a string",
            'import torch\nd = "cuda" if torch.cuda.is_available() else "cpu"\n',
            'import torch\nd = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"\n',
        ),
        Example(
            "a device",
            'import torch\nd = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")\n',
            'import torch\nd = torch.device(torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu")\n',
        ),
        Example(
            "two branches",
            'import torch\nif torch.cuda.is_available():\n    d = torch.device("cuda")\nelse:\n    d = torch.device("cpu")\n',
            "import torch\nif torch.accelerator.is_available():\n    d = torch.accelerator.current_accelerator()\n"
            'else:\n    d = torch.device("cpu")\n',
        ),
        Example(
            "with a flag",
            'import torch\nd = torch.device("cuda" if args.cuda and torch.cuda.is_available() else "cpu")\n',
            "import torch\nd = torch.device(torch.accelerator.current_accelerator() if args.cuda and "
            'torch.accelerator.is_available() else "cpu")\n',
        ),
        Example(
            "an old torch",
            'import torch\nd = "cuda" if torch.cuda.is_available() else "cpu"\n',
            'import torch\nd = device.type if device.type != "cpu" else "cpu"\n',
            torch="1.8",
        ),
    )
    leaves = (
        Leave(
            'import torch\nd = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"\n',
            "knows of other devices already",
        ),
        Leave(
            'import torch\nif torch.cuda.is_available():\n    d = "cuda"\nelif torch.backends.mps.is_available():\n    d = "mps"\n'
            'else:\n    d = "cpu"\n',
            "knows of other devices already, in branches",
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if site.qualname != "torch.cuda.is_available" or site.call is None:
            return
        literals = chosen_literals(site.context, site.call.node)
        if not literals:
            return
        context, placement = site.context, site.context.placement
        available = placement.available(site.call.node)
        edits: list[Edit] = [site.module.replace(site.call.node, available.text), *available.edits]
        for literal in literals:
            edits += self._chosen(context, literal)
        yield context.finding(
            self,
            site.call.node,
            "only CUDA and the CPU are chosen from: ask `torch.accelerator` (or mps and xpu too)",
            Safety.SAFE,
            edits,
        )

    def _chosen(self, context: Context, literal: DeviceLiteral) -> list[Edit]:
        placement, module = context.placement, context.module
        index = literal.index
        if index == "0" and not context.facts.sets_device:
            index = None
        maker = literal.device_call
        if index is not None:
            expression = placement.indexed(literal.node, index)
            written = expression.text if maker else f"str({expression.text})"
            return [module.replace(maker or literal.node, written), *expression.edits]
        if context.target.has_accelerator:
            torch = placement.torch_name(literal.node)
            accelerator = f"{torch.text}.accelerator.current_accelerator()"
            if maker is not None and not literal.in_choice_argument:
                return [module.replace(maker, accelerator), *torch.edits]
            in_device = literal.in_choice_argument
            return [module.replace(literal.node, accelerator if in_device else f"{accelerator}.type"), *torch.edits]
        device = placement.device(literal.node)
        if maker is not None and not literal.in_choice_argument:
            return [module.replace(maker, device.expr), *device.edits]
        return [module.replace(literal.node, device.type), *device.edits]


def chosen_literals(context: Context, question: Node) -> list[DeviceLiteral]:
    """The device literals that are chosen when `question` is true; none where other accelerators are asked for too."""
    region = guarded(question)
    if region is None:
        return []
    holder, branch, value_branch = region
    if _OTHERS.search(text(holder)):
        return []
    found = []
    for node in walk(branch):
        if node.type != "string":
            continue
        literal = device_literal(context.module, node)
        if literal is None:
            continue
        outer = literal.device_call or literal.node
        if (
            (value_branch and same(strip_parens(branch), outer))
            or (value_branch and same(strip_parens(branch), literal.node))
            or (not value_branch and _is_assigned_or_returned(outer) and _nearest_if(outer, holder))
        ):
            found.append(literal)
    return found


def guarded(question: Node) -> tuple[Node, Node, bool] | None:
    """(the conditional, the branch taken when `question` is true, whether the branch is a value)."""
    current, positive = question, True
    for parent in ancestors(question):
        if parent.type == "not_operator":
            positive = not positive
        elif parent.type == "parenthesized_expression" or parent.type == "boolean_operator":
            operator = field(parent, "operator")
            if operator is not None and operator.type == "and" and same(field(parent, "left"), current):
                right = field(parent, "right")
                if right is not None and device_like(right):
                    return parent, right, True
        elif parent.type == "conditional_expression":
            parts = [c for c in parent.named_children if c.type != "comment"]
            if len(parts) != 3 or not same(parts[1], current):
                return None
            return parent, parts[0] if positive else parts[2], True
        elif parent.type in ("if_statement", "elif_clause"):
            if not same(field(parent, "condition"), current):
                return None
            whole = parent if parent.type == "if_statement" else parent.parent or parent
            if positive:
                branch = field(parent, "consequence")
            else:
                other = next((c for c in whole.children if c.type == "else_clause"), None)
                branch = field(other, "body") if other is not None else None
            return (whole, branch, False) if branch is not None else None
        elif parent.type != "call" or parent.id != question.id:
            return None
        current = parent
    return None


def device_like(node: Node) -> bool:
    """Whether `node` spells a device: `"cuda"`, `torch.device(...)`."""
    return (string_value(strip_parens(node)) or "").startswith("cuda") or "device(" in text(node)


def _is_assigned_or_returned(node: Node) -> bool:
    parent = node.parent
    return parent is not None and parent.type in ("assignment", "return_statement")


def _nearest_if(node: Node, holder: Node) -> bool:
    nearest = next((a for a in ancestors(node) if a.type == "if_statement"), None)
    return same(nearest, holder)


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
            return any(
                has_cuda_only(context, branch)
                for use in context.module.names.references(text(target))
                if (r := guarded(use)) is not None
                for branch in [r[1]]
            )
    # `torch.cuda.is_available() and torch.cuda.is_bf16_supported()`: the rest of the condition
    return False


def has_cuda_only(context: Context, branch: Node) -> bool:
    """Whether `branch` is CUDA's own: it holds what only CUDA has, or a `torch.cuda` name that is still to be rewritten.

    A guard is opened to every accelerator once nothing in its branch asks for CUDA any more, so that a call that no
    rule can rewrite keeps the guard that it needs.
    """
    source = text(branch)
    imported = any((b.target or "").startswith("torch.cuda.") for b in context.module.names.imports)
    if "cuda" not in source and not imported:
        return False
    guarded_alone = []
    for node in _cuda_names(context, branch):
        name = (context.module.qualname(node) or "").removeprefix("torch.cuda.")
        api = lookup(name)
        if api is not None and api.fate is Fate.QUIET:
            continue
        if not is_guardable(name) or is_portable(name, context.target):
            return True
        guarded_alone.append(node)
    if not guarded_alone:  # settings and private names of the CUDA build: `torch.backends.cuda.cufft_plan_cache`
        return bool(_OWN_SETTINGS.search(source)) and not _MOVES.search(source)
    return not _moves_beside(branch, guarded_alone)


def _moves_beside(branch: Node, names: list[Node]) -> bool:
    """Whether a statement of `branch` moves something, other than those that hold one of `names`.

    What those hold comes to stand behind a guard of its own; opened for its sake, that guard would be written again.
    """
    parts = branch.named_children if branch.type == "block" else []
    return any(
        _MOVES.search(text(part))
        for part in parts
        if not any(part.start_byte <= name.start_byte < part.end_byte for name in names)
    )


def _cuda_names(context: Context, branch: Node) -> Iterator[Node]:
    """The names below `torch.cuda` that `branch` uses outside of guards of its own."""
    for node in walk(branch):
        if node.type not in ("attribute", "identifier") or (
            node.parent is not None and node.parent.type == "attribute"
        ):
            continue
        name = context.module.qualname(node) or ""
        if not name.startswith("torch.cuda.") or name == "torch.cuda.is_available":
            continue
        inner = []
        for parent in ancestors(node):
            if same(node, branch) or same(parent, branch):
                break
            inner.append(parent)
        if not any(_asks_cuda(parent) for parent in inner):
            yield node


def _asks_cuda(node: Node) -> bool:
    condition = field(node, "condition") if node.type == "if_statement" else None
    if node.type == "conditional_expression":
        condition = node.named_child(1)
    return condition is not None and "cuda.is_available()" in text(condition)


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
