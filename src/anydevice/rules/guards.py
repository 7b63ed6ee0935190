"""Whether a place in the code is only reached where there is CUDA, or where there is any accelerator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tree_sitter import Node

from anydevice.rules.site import Context
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, field, same, string_value, strip_parens, text

Test = Callable[[Context, Node, bool], bool]

_DEPTH = 4  # how many flags set by flags are followed
_ACCELERATORS = re.compile(r"(?:cuda|xpu|mps|npu|mlu|hpu|musa)(?::\d+)?\Z")
_CUDA = re.compile(r"cuda(?::\d+)?\Z")


def needs_cuda(context: Context, node: Node) -> bool:
    """Whether `node` is only reached where CUDA is there, for all that the conditions around it say."""
    return any(_implied(context, condition, truth, _says_cuda) for condition, truth in conditions(node)) or any(
        _counts_cuda(context, loop) for loop in ancestors(node) if loop.type in ("for_statement", "for_in_clause")
    )


def needs_accelerator(context: Context, node: Node) -> bool:
    """Whether `node` is only reached where some accelerator is there."""
    return any(_implied(context, condition, truth, _says_accelerator) for condition, truth in conditions(node)) or any(
        _counts_cuda(context, loop) for loop in ancestors(node) if loop.type in ("for_statement", "for_in_clause")
    )


def conditions(node: Node) -> Iterator[tuple[Node, bool]]:
    """The conditions around `node`, innermost first, with the answer that each has had when `node` runs."""
    current = node
    for parent in ancestors(node):
        if parent.type in ("if_statement", "elif_clause", "while_statement"):
            condition = field(parent, "condition")
            inside = field(parent, "consequence") or field(parent, "body")
            if condition is not None and same(inside, current):
                yield condition, True
            elif condition is not None and current.type in ("else_clause", "elif_clause"):
                yield condition, False
        elif parent.type == "conditional_expression":
            parts = [child for child in parent.named_children if child.type != "comment"]
            if len(parts) == 3 and not same(parts[1], current):
                yield parts[1], same(parts[0], current)
        elif parent.type == "boolean_operator" and same(field(parent, "right"), current):
            left, operator = field(parent, "left"), field(parent, "operator")
            if left is not None and operator is not None:
                yield left, operator.type == "and"
        current = parent


def _implied(context: Context, condition: Node, truth: bool, says: Test, depth: int = 0) -> bool:
    """Whether `says` holds of some part of `condition`, given that its answer is `truth`."""
    node = strip_parens(condition)
    if node.type == "not_operator":
        inner = field(node, "argument")
        return inner is not None and _implied(context, inner, not truth, says, depth)
    if node.type == "boolean_operator":
        operator = field(node, "operator")
        sides = [side for side in (field(node, "left"), field(node, "right")) if side is not None]
        decided = operator is not None and (operator.type == "and") == truth
        test = any if decided else all
        return test(_implied(context, side, truth, says, depth) for side in sides)
    if says(context, node, truth):
        return True
    if depth < _DEPTH:
        values = _flag_values(context, node)
        return bool(values) and all(_implied(context, value, truth, says, depth + 1) for value in values)
    return False


def _flag_values(context: Context, node: Node) -> list[Node]:
    """What a flag (`use_cuda`, `args.cuda`) is set to, when all of that can be seen."""
    if node.type == "identifier":
        bindings = context.module.names.lookup(node)
        if all(b.kind == "assignment" and b.value is not None for b in bindings):
            return [b.value for b in bindings if b.value is not None]
        return []
    if node.type != "attribute":
        return []
    found = []
    for match in re.finditer(rb"(?m)^[ \t]*" + re.escape(text(node).encode()) + rb"[ \t]*=(?!=)", context.module.data):
        leaf = context.module.leaf(match.end() - 1, match.end())
        assignment = leaf.parent if leaf is not None else None
        value = field(assignment, "right") if assignment is not None and assignment.type == "assignment" else None
        if value is None:
            return []
        found.append(value)
    return found


def _says_cuda(context: Context, node: Node, truth: bool) -> bool:
    """Whether the answer `truth` to `node` means that CUDA is there."""
    if node.type == "attribute":
        return truth and text(node).endswith(".is_cuda")
    if node.type == "call":
        call = Call(node)
        name = context.module.qualname(call.function)
        if name in ("torch.cuda.is_available", "torch.cuda.device_count"):
            return truth
        return truth and call.method == "startswith" and bool(call.positional) and _is(call.positional[0].value, _CUDA)
    return _compares(context, node, truth, "torch.cuda.device_count", _CUDA)


def _says_accelerator(context: Context, node: Node, truth: bool) -> bool:
    """Whether the answer `truth` to `node` means that an accelerator is there."""
    if _says_cuda(context, node, truth):
        return True
    if node.type == "call":
        name = context.module.qualname(Call(node).function) or ""
        return truth and name in (
            "torch.accelerator.is_available",
            "torch.accelerator.device_count",
            "torch.xpu.is_available",
            "torch.backends.mps.is_available",
            "torch.mps.is_available",
        )
    if node.type == "comparison_operator" and len(node.named_children) == 2:
        left, right = node.named_children
        operator = text(node)[left.end_byte - node.start_byte : right.start_byte - node.start_byte].strip()
        about_cpu = string_value(right) == "cpu" or text(right).replace("'", '"') == 'torch.device("cpu")'
        if about_cpu and operator in ("!=", "=="):
            return truth is (operator == "!=")
    return _compares(context, node, truth, "torch.accelerator.device_count", _ACCELERATORS)


def _compares(context: Context, node: Node, truth: bool, counter: str, kinds: re.Pattern[str]) -> bool:
    """`count() > n`, `x.type == "cuda"`, `"cuda" in str(device)`, `device.type in ("cuda", "xpu")`."""
    if node.type != "comparison_operator" or len(node.named_children) != 2:
        return False
    left, right = node.named_children
    operator = context.module.data[left.end_byte : right.start_byte].decode().strip()
    if left.type == "call" and context.module.qualname(Call(left).function) == counter:
        positive = (operator in (">", "!=") or (operator in (">=", "==") and text(right) != "0")) and text(
            right
        ) != "-1"
        none_left = (operator == "==" and text(right) == "0") or (operator == "<" and text(right) == "1")
        return positive if truth else none_left
    if operator in ("==", "in") and (_is(left, kinds) or _is(right, kinds)):
        return truth
    if operator in ("!=", "not in") and (_is(left, kinds) or _is(right, kinds)):
        return not truth
    if operator == "in" and right.type in ("tuple", "list", "set"):
        return truth and all(_is(item, kinds) for item in right.named_children)
    return False


def _is(node: Node, kinds: re.Pattern[str]) -> bool:
    value = string_value(node)
    return value is not None and bool(kinds.match(value))


def _counts_cuda(context: Context, loop: Node) -> bool:
    """`for i in range(torch.cuda.device_count())`."""
    over = field(loop, "right")
    if over is None or over.type != "call" or text(Call(over).function) != "range" or not Call(over).positional:
        return False
    last = strip_parens(Call(over).positional[-1].value)
    if last.type == "identifier":
        values = _flag_values(context, last)
        last = values[0] if len(values) == 1 else last
    return last.type == "call" and context.module.qualname(Call(last).function) == "torch.cuda.device_count"
