"""Group B, third part: code that asks an object whether it is on CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.availability import guarded, has_cuda_only
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.syntax import ancestors, field, same, statement, string_value, strip_parens, text

# Other accelerators, named in a choice or asked for in a condition: words, for `input` has an `npu` in it.
_OTHERS = re.compile(r"(?<![a-zA-Z])(?:mps|xpu|npu)(?![a-zA-Z])")
_OTHERS_ASKED = re.compile(r"[\"']mps[\"']|(?<![a-zA-Z])(?:xpu|npu)(?![a-zA-Z])")


class CudaDeviceComparison(PythonRule):
    """`device.type == "cuda"` and `"cuda" in str(device)` mean "on a GPU" nearly everywhere, and leave other GPUs out.

    Instead: `device.type != "cpu"`, unless what follows exists on CUDA only.
    """

    code = "ADB06"
    name = "cuda-device-comparison"
    summary = "a device is compared with CUDA where any accelerator may be meant"
    text_anchors = ("cuda",)
    examples = (
        Example(
            "equality",
            'import torch\nif x.device.type == "cuda":\n    n = 2\n',
            'import torch\nif x.device.type != "cpu":\n    n = 2\n',
        ),
        Example(
            "the type of a device string",
            'import torch\nkind = "cuda" if "cuda" in where else "cpu"\n',
            "import torch\nkind = torch.device(where).type\n",
        ),
        Example(
            "a substring",
            'import torch\nif "cuda" in str(x.device):\n    n = 2\n',
            'import torch\nif "cpu" not in str(x.device):\n    n = 2\n',
        ),
        Example(
            "a prefix",
            'import torch\nif where.startswith("cuda"):\n    n = 2\n',
            'import torch\nif not where.startswith("cpu"):\n    n = 2\n',
        ),
    )
    leaves = (
        Leave(
            'import torch\nif x.device.type == "cuda":\n    torch.cuda.nvtx.mark("a")\n', "what follows is CUDA's own"
        ),
        Leave('import torch\nif d == "cuda" or d == "mps":\n    pass\n', "other accelerators are named beside it"),
        Leave('import torch\nif name == "cuda":\n    pass\n', "not known to be a device"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        value = string_value(site.leaf)
        if value is None or value.partition(":")[0] != "cuda" or value.count(":") > 1:
            return
        parent = site.leaf.parent
        if parent is None:
            return
        context = site.context
        if parent.type == "argument_list" and parent.parent is not None:
            yield from self._prefix(site, parent.parent)
        elif parent.type == "comparison_operator" and parent.named_child_count == 2:
            question = self._question(parent)
            if _is_settled(context, question):
                return
            yield from self._comparison(site, parent, question)

    def _question(self, comparison: Node) -> Node:
        parent = comparison.parent
        return parent if parent is not None and parent.type == "parenthesized_expression" else comparison

    def _comparison(self, site: Site, comparison: Node, question: Node) -> Iterator[Finding]:
        context, module = site.context, site.module
        operator = " ".join(text(c) for c in comparison.children if not c.is_named or c.type in ("in", "not in"))
        left, right = comparison.named_children
        other = right if same(left, site.leaf) else left
        whole = _kind_of_device(context, question)
        if whole is not None and operator == "in" and same(left, site.leaf):
            torch = context.placement.torch_name(comparison)
            inner = text(other.named_children[-1].named_children[0]) if text(other).startswith("str(") else text(other)
            yield context.finding(
                self,
                comparison,
                f"only CUDA is told from the CPU; write `{torch.text}.device({inner}).type`",
                Safety.UNSAFE,
                [module.replace(whole, f"{torch.text}.device({inner}).type"), *torch.edits],
            )
            return
        if not _is_device(context, other):
            return
        opposite = {"==": "!=", "!=": "==", "in": "not in", "not in": "in"}.get(operator)
        if opposite is None or (operator in ("in", "not in") and not same(left, site.leaf)):
            return
        if ":" in (string_value(site.leaf) or ""):
            yield context.finding(
                self,
                comparison,
                'compared with one numbered device: compare `.type`, or ask for `!= "cpu"`',
                Safety.MANUAL,
            )
            return
        quote = text(site.leaf)[0]
        cpu = f"{quote}cpu{quote}"
        new = f"{cpu} {opposite} {text(other)}" if same(left, site.leaf) else f"{text(other)} {opposite} {cpu}"
        yield context.finding(
            self,
            comparison,
            f"any accelerator may be meant; write `{new}`",
            Safety.UNSAFE,
            [module.replace(comparison, new)],
        )

    def _prefix(self, site: Site, call: Node) -> Iterator[Finding]:
        function = field(call, "function")
        attribute = field(function, "attribute") if function is not None and function.type == "attribute" else None
        owner = field(function, "object") if function is not None else None
        if attribute is None or owner is None or text(attribute) != "startswith" or not _is_device(site.context, owner):
            return
        if _is_settled(site.context, call):
            return
        parent = call.parent
        negated = parent is not None and parent.type == "not_operator"
        target = parent if negated and parent is not None else call
        positive = f'{text(owner)}.startswith("cpu")'
        new = positive if negated else f"not {positive}"
        if (
            not negated
            and parent is not None
            and parent.type
            not in (
                "if_statement",
                "elif_clause",
                "assignment",
                "boolean_operator",
                "conditional_expression",
                "parenthesized_expression",
            )
        ):
            new = f"({new})"
        yield site.context.finding(
            self,
            call,
            f"any accelerator may be meant; write `{new}`",
            Safety.UNSAFE,
            [site.module.replace(target, new)],
        )


def _is_settled(context: Context, question: Node) -> bool:
    """Whether other accelerators are named beside, or what hangs on the question is CUDA's own."""
    if any(word in text(statement(question)) for word in ("pin_memory", "map_location", "GradScaler")):
        return True  # pinned memory, gradient scaling and the devices of checkpoints are matters of CUDA
    for parent in ancestors(question):
        if parent.type in ("boolean_operator", "comparison_operator", "parenthesized_expression", "not_operator"):
            continue
        if parent.type == "conditional_expression" and _OTHERS.search(text(parent)):
            return True
        if parent.type in ("if_statement", "elif_clause"):
            whole = parent if parent.type == "if_statement" else parent.parent or parent
            conditions = [c for clause in [whole, *whole.children] if (c := field(clause, "condition")) is not None]
            if any(_OTHERS_ASKED.search(text(c)) for c in conditions):
                return True
        break
    region = guarded(question)
    if region is not None and "set_default_tensor_type" in text(region[1]):  # what ADC01 writes
        return True
    return region is not None and has_cuda_only(context, region[1])


def _kind_of_device(context: Context, question: Node) -> Node | None:
    """The conditional of `"cuda" if "cuda" in device else "cpu"`."""
    parent = question.parent
    if parent is None or parent.type != "conditional_expression":
        return None
    parts = [c for c in parent.named_children if c.type != "comment"]
    if len(parts) != 3 or not same(parts[1], question):
        return None
    return parent if string_value(parts[0]) == "cuda" and string_value(parts[2]) == "cpu" else None


def _is_device(context: Context, node: Node) -> bool:
    """Whether an expression is a device, its type, or its name."""
    node = strip_parens(node)
    words = text(node).lower()
    return "device" in words or words in ("dev", "self.dev", "where") or words.endswith((".dev", "_dev"))


class IsCuda(PythonRule):
    """`x.is_cuda` is false on mps and xpu, though the tensor is on an accelerator.

    Instead: `x.device.type != "cpu"`. In kernels and their wrappers, which really ask for CUDA, it stays.
    """

    code = "ADB07"
    name = "is-cuda"
    summary = "`is_cuda` is false on other accelerators"
    anchors = ("is_cuda",)
    examples = (
        Example(
            "a branch",
            "import torch\nif x.is_cuda:\n    y = 1\n",
            'import torch\nif x.device.type != "cpu":\n    y = 1\n',
        ),
        Example(
            "of inputs",
            "import torch\nif inputs.is_cuda:\n    y = 1\n",
            'import torch\nif inputs.device.type != "cpu":\n    y = 1\n',
        ),
        Example(
            "a negation",
            "import torch\nif not x.is_cuda:\n    y = 1\n",
            'import torch\nif x.device.type == "cpu":\n    y = 1\n',
        ),
        Example(
            "a parameter",
            "import torch\nok = next(m.parameters()).is_cuda\n",
            'import torch\nok = next(m.parameters()).device.type != "cpu"\n',
        ),
        Example(
            "a kernel's check",
            "import torch\nclass F(torch.autograd.Function):\n    def forward(ctx, x):\n        assert x.is_cuda\n",
        ),
    )
    leaves = (
        Leave("import torch\nif x.is_cuda:\n    torch.cuda.nvtx.mark('a')\n", "what follows is CUDA's own"),
        Leave("class A:\n    is_cuda = 1\n", "an attribute of one's own"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        attribute = site.leaf.parent
        if attribute is None or attribute.type != "attribute" or same(field(attribute, "object"), site.leaf):
            return
        parent = attribute.parent
        if (
            parent is None
            or parent.type == "attribute"
            or (parent.type == "assignment" and same(field(parent, "left"), attribute))
        ):
            return
        context, module = site.context, site.module
        if parent.type == "assert_statement" or _in_autograd_function(context, attribute):
            yield context.finding(
                self,
                attribute,
                'asks for CUDA by name: keep it before a CUDA kernel, else write `.device.type != "cpu"`',
                Safety.MANUAL,
            )
            return
        if parent.type == "call" or _is_settled(context, attribute):
            return
        owner = text(field(attribute, "object") or attribute)
        negated = parent.type == "not_operator"
        target = parent if negated else attribute
        new = f'{owner}.device.type {"==" if negated else "!="} "cpu"'
        outer = target.parent
        if outer is not None and outer.type in (
            "comparison_operator",
            "binary_operator",
            "not_operator",
            "argument_list",
            "attribute",
        ):
            new = f"({new})" if outer.type != "argument_list" else new
        yield context.finding(
            self, attribute, f"false on other accelerators; write `{new}`", Safety.SAFE, [module.replace(target, new)]
        )


def _in_autograd_function(context: Context, node: Node) -> bool:
    owner = context.module.class_(node)
    bases = field(owner, "superclasses") if owner is not None else None
    return bases is not None and "Function" in text(bases)
