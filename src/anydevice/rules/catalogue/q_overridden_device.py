"""Group Q, wishes: the device that the user asked for, replaced by one that the program picks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.choice import device_value
from anydevice.rules.residence import residence
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.rules.wishes import asked_elsewhere, falls_back_on_cuda, is_asked, is_wish, never_read
from anydevice.source.syntax import ancestors, contains, field, string_value, strip_parens, text

_HEAD = "import torch\n"


class ExplicitDeviceOverridden(PythonRule):
    """The device that the user asked for (an argument, a flag) is replaced by one that the program picks.

    `device = args.device` followed by `if torch.cuda.is_available(): device = "cuda"` leaves no way to choose the CPU;
    `args.device if torch.cuda.is_available() else "cpu"` turns a wish for mps or xpu into the CPU.

    Instead: pick only where nothing was asked for: `if device is None: device = ...`.
    """

    code = "ADQ13"
    name = "explicit-device-overridden"
    summary = "the device that was asked for is thrown away"
    anchors = ("is_available", "current_accelerator")
    needs = ("cuda|current_accelerator", "device")
    examples = (
        Example(
            "a flag",
            _HEAD + 'device = args.device\nif torch.cuda.is_available():\n    device = "cuda"\nmodel.to(device)\n',
        ),
        Example(
            "an argument",
            _HEAD
            + 'def load(path, device="cpu"):\n    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
            "    return torch.load(path, map_location=device)\n",
        ),
        Example(
            "a wish that only CUDA hears",
            _HEAD + 'def pick(wish):\n    return torch.device(wish if torch.cuda.is_available() else "cpu")\n',
        ),
        Example(
            "an argument never read",
            _HEAD + "class Model:\n    def __init__(self, device=None):\n"
            '        self.device = "cuda" if torch.cuda.is_available() else "cpu"\n',
        ),
        Example(
            "only CUDA counts",
            _HEAD
            + 'def run(model, device):\n    device = device if torch.cuda.is_available() else "cpu"\n    model.to(device)\n',
        ),
        Example(
            "a fallback that asks for CUDA",
            _HEAD
            + 'def run(model, device):\n    if not torch.cuda.is_available():\n        device = "cpu"\n    model.to(device)\n',
        ),
        Example(
            "a parsed flag",
            _HEAD + 'parser.add_argument("--device", default="cuda")\nargs = parser.parse_args()\n'
            'args.device = "cuda" if torch.cuda.is_available() else "cpu"\n',
        ),
    )
    leaves = (
        Leave(
            _HEAD
            + 'def load(device=None):\n    if device is None:\n        device = "cuda" if torch.cuda.is_available() else "cpu"\n'
            "    return device\n",
            "picked where nothing was asked for",
        ),
        Leave(
            _HEAD
            + 'def load(device=None):\n    device = device or ("cuda" if torch.cuda.is_available() else "cpu")\n    return device\n',
            "the wish comes first",
        ),
        Leave(
            _HEAD
            + 'def f(device):\n    if device == "cuda" and not torch.cuda.is_available():\n        device = "cpu"\n    return device\n',
            "only a wish that cannot be met",
        ),
        Leave(_HEAD + 'device = "cpu"\nif torch.cuda.is_available():\n    device = "cuda"\n', "nobody asked"),
        Leave(
            _HEAD + 'device = torch.device("cuda" if args.cuda and torch.cuda.is_available() else "cpu")\n',
            "another flag decides",
        ),
        Leave(
            _HEAD
            + 'def f(device=None):\n    best = "cuda" if torch.cuda.is_available() else "cpu"\n    return device or best\n',
            "a default of another name",
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if site.is_import or site.qualname not in (
            "torch.cuda.is_available",
            "torch.accelerator.is_available",
            "torch.accelerator.current_accelerator",
        ):
            return
        choice = self._wish_or_cpu(site)
        if choice is not None:
            node, wish = choice
            yield site.context.finding(
                self,
                node,
                f"`{wish}` is only heard where there is CUDA: a wish for mps or xpu becomes the CPU; write `{wish}` alone, or ask "
                "for its own availability",
                Safety.MANUAL,
            )
            return
        assignment = self._assignment(site)
        if assignment is None:
            return
        target, value = field(assignment, "left"), field(assignment, "right")
        if target is None or value is None:
            return
        overridden = self._wish(site, assignment, target, value)
        if overridden is not None:
            yield site.context.finding(
                self,
                assignment,
                f"`{overridden}` was asked for and is thrown away: pick a device only where nothing was asked for",
                Safety.MANUAL,
            )

    def _wish_or_cpu(self, site: Site) -> tuple[Node, str] | None:
        """`wish if torch.cuda.is_available() else "cpu"`, and `if not torch.cuda.is_available(): return "cpu"`."""
        if site.qualname != "torch.cuda.is_available":
            return None
        for parent in ancestors(site.leaf):
            if parent.type == "conditional_expression":
                parts = [c for c in parent.named_children if c.type != "comment"]
                if len(parts) != 3 or not _is_only_question(parts[1]):
                    return None
                negated = "not" in text(parts[1]).split("torch")[0]
                wish, other = (parts[2], parts[0]) if negated else (parts[0], parts[2])
                return (parent, text(wish)) if _is_cpu(other) and is_wish(site, wish) else None
            if parent.type == "if_statement":
                return self._returns_cpu(site, parent)
            if parent.type in ("block", "module", "function_definition", "boolean_operator"):
                return None
        return None

    def _returns_cpu(self, site: Site, branch: Node) -> tuple[Node, str] | None:
        """A function that gives the CPU whatever device it was asked for, where there is no CUDA."""
        condition, body = field(branch, "condition"), field(branch, "consequence")
        function = site.module.function(branch)
        if condition is None or body is None or function is None or not _is_only_question(condition):
            return None
        negated = text(condition).lstrip("( ").startswith("not")
        last = next((c for c in body.named_children if c.type == "return_statement"), None)
        value = next(iter(last.named_children), None) if last is not None else None
        if last is None or value is None:
            return None
        if negated:
            wish = next((n for n in residence(site.context).parameters(function) if re.search(r"dev", n)), None)
            return (last, wish) if wish is not None and _is_cpu(value) else None
        rest = site.module.data[branch.end_byte : function.end_byte].decode("utf-8", "replace")
        before = site.module.data[function.start_byte : branch.start_byte].decode("utf-8", "replace").partition("):")[2]
        wish = next(
            (
                n
                for n in residence(site.context).parameters(function)
                if re.search(rf"\btorch\.device\(\s*{n}\b|return {n}\b", rest) and not re.search(rf"\b{n}\b", before)
            ),
            None,
        )
        choice = device_value(site.module, value)
        return (last, wish) if wish is not None and choice is not None and choice.fixed else None

    def _assignment(self, site: Site) -> Node | None:
        """The assignment of a device that a question decides: its value holds the question, or its `if` does."""
        for parent in ancestors(site.leaf):
            if parent.type == "assignment":
                return parent
            if parent.type in ("block", "module", "function_definition"):
                return None
            if parent.type == "if_statement":
                condition, body = field(parent, "condition"), field(parent, "consequence")
                if condition is None or body is None or not contains(condition, site.leaf):
                    return None
                if not _is_only_question(condition) or any(c.type == "elif_clause" for c in parent.children):
                    return None
                first = next((c for c in body.named_children if c.type != "comment"), None)
                inner = next(iter(first.named_children), None) if first is not None else None
                return inner if inner is not None and inner.type == "assignment" else None
        return None

    def _wish(self, site: Site, assignment: Node, target: Node, value: Node) -> str | None:
        """What the user asked for, in the words of the code, if the assignment throws it away."""
        name = text(target)
        if not _makes_device(site, value):
            return None
        reads = _read(value, name)
        function = site.module.function(assignment)
        if reads:
            return name if falls_back_on_cuda(value, name) and is_asked(site, function, name, assignment) else None
        if _is_guarded(assignment, name):
            return None
        if target.type == "identifier":
            return name if is_asked(site, function, name, assignment) else asked_elsewhere(value)
        if name.startswith("self.") and function is not None and "device" in name.lower():
            return never_read(site, function)
        if re.match(r"(?:args|opts?|config|cfg|hparams|params|flags)\.\w*device\w*\Z", name, re.IGNORECASE):
            flag = name.rpartition(".")[2].replace("_", "[-_]")
            return name if re.search(rf"add_argument\([^)]*[\"']--{flag}[\"']", text(site.module.root)) else None
        return None


def _is_guarded(assignment: Node, name: str) -> bool:
    """Whether some condition around asks for the name, or for anything but availability."""
    for parent in ancestors(assignment):
        if parent.type == "function_definition":
            return False
        if parent.type in ("if_statement", "elif_clause"):
            condition = field(parent, "condition")
            if condition is not None and not _is_only_question(condition):
                return True
        if parent.type in ("except_clause", "while_statement", "match_statement"):
            return True
    return False


def _is_cpu(node: Node) -> bool:
    return re.fullmatch(r"\(?(?:torch\.device\(\s*)?[\"']cpu[\"']\)*", text(node)) is not None


def _makes_device(site: Site, value: Node) -> bool:
    value = strip_parens(value)
    if device_value(site.module, value) is not None or (string_value(value) or "").startswith(("cuda", "cpu", "mps")):
        return True
    return re.search(
        r"is_available\(\)|torch\.device\(|current_accelerator\(", text(value)
    ) is not None and not re.search(r"\bor\b|device_count|dtype|\[", text(value))


def _read(value: Node, name: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}\b", text(value)) is not None


def _is_only_question(condition: Node) -> bool:
    return (
        re.fullmatch(r"\(?\s*(?:not\s+)?torch\.(?:cuda|accelerator)\.is_available\(\)\s*\)?", text(condition))
        is not None
    )
