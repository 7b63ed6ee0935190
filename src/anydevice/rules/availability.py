"""What hangs on a question for CUDA: the branch that it guards, the devices chosen there, and what only CUDA has."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.rules.cuda_api import Fate, is_guardable, is_portable, lookup
from anydevice.rules.device_properties import has_stand_in
from anydevice.rules.literal import DeviceLiteral, device_literal
from anydevice.rules.site import Context
from anydevice.source.syntax import ancestors, field, same, string_value, strip_parens, text, walk

_OWN_SETTINGS = re.compile(r"backends\.cuda\.|_C\._cuda")
_MOVES = re.compile(r"""\.cuda\(|["']cuda|\.to\(""")
_OTHERS = re.compile(r"\b(?:mps|xpu|npu|mlu|hpu)\b")


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


def has_cuda_only(context: Context, branch: Node, gains: bool = False) -> bool:
    """Whether `branch` is CUDA's own: it holds what only CUDA has, or a `torch.cuda` name still to be rewritten.

    A guard is opened to every accelerator once nothing in its branch asks for CUDA any more, so that a call that no
    rule can rewrite keeps the guard that it needs. `gains`: the same answer moves something elsewhere, so that calls
    which can have a guard of their own are no reason to keep this one.
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
        if not is_guardable(name) or is_portable(name, context.target) or _is_needed(context, node, name):
            return True
        guarded_alone.append(node)
    if not guarded_alone:  # settings and private names of the CUDA build: `torch.backends.cuda.cufft_plan_cache`
        return bool(_OWN_SETTINGS.search(source)) and not _MOVES.search(source)
    return not (gains or _moves_beside(branch, guarded_alone))


def _is_needed(context: Context, node: Node, name: str) -> bool:
    """Whether the answer of a call is handed on, so that nothing can stand in for it where there is no CUDA."""
    call = node.parent
    if name != "get_device_properties" or call is None or call.type != "call":
        return False
    return not has_stand_in(context, call)


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
