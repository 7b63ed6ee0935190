"""What calls give back: factories, operators, layers and models, the methods of tensors."""

from __future__ import annotations

import re

from tree_sitter import Node

from anydevice.rules import tensor_words as words
from anydevice.rules.held import element, returned
from anydevice.rules.home import TENSORS, Env, Home, Homes, together
from anydevice.rules.moves import given, move_target
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, same, text


def of_call(where: Homes, call: Call, env: Env, depth: int) -> Home | None:
    """The home of what a call gives back."""
    name = where.module.qualname(call.function)
    if name is not None and (name.startswith(("torch", "einops.")) or name.split(".")[0] in ("numpy", "np")):
        return _library_call(where, call, name, env, depth)
    if call.receiver is not None:
        home = _method_call(where, call, env, depth)
        if home is not None:
            return home
    function = where.function_of(call)
    if function is not None:
        return returned(where, function, call, env, depth)
    class_ = where.class_of(call.function)
    if class_ is not None:
        return _own_module(where, class_, call, env, depth) if where.is_module_class(class_) else None
    if text(call.function) in ("next", "iter") and call.positional:
        return element(where, call.positional[0].value, [], env, depth)
    if text(call.function) in ("len", "int", "float", "range", "str", "bool"):
        return Home.OTHER
    if text(call.function) in ("list", "tuple", "sum", "deepcopy", "copy.deepcopy") and call.positional:
        return where.of(call.positional[0].value, env, depth)
    callee = where.of(call.function, env, depth)
    if callee in (Home.MOVED_MODULE, Home.DEVICE):
        return Home.DEVICE
    if callee in (Home.MODULE, Home.STATELESS):
        return together(where.of(a.value, env, depth) for a in call.arguments)
    if callee is None and words.MODEL_NAME.search(text(call.function)[-30:]):
        homes = [where.of(a.value, env, depth) for a in call.arguments]
        return Home.DEVICE if Home.DEVICE in homes else None
    return None


def _own_module(where: Homes, class_: Node, call: Call, env: Env, depth: int) -> Home | None:
    """An instance of a module class of this file: stateless, on the CPU, or moved by its own construction."""
    body = text(class_)
    init = where.method_of(class_, "__init__")
    if re.search(r"\bself\.(?:to|cuda)\(", body) or (
        init is not None and re.search(r"\.(?:cuda|to)\(|\bdevice\b", text(init))
    ):
        return None
    device = call.keyword("device")
    if device is not None:
        return Home.MOVED_MODULE if given(where, device.value, env, depth) is Home.DEVICE else None
    if any("device" in text(a.value) for a in call.arguments):
        return None
    return Home.STATELESS if _is_stateless(where, class_) else Home.MODULE


def _is_stateless(where: Homes, class_: Node, depth: int = 0) -> bool:
    """Whether a module class of this file has no tensors: none of its own, none in the modules it is made of."""
    body = text(class_)
    plain = re.search(r"\bModule\)?\s*:|Module\s*\)", body[:200]) is not None
    if not plain or depth > 3 or words.STATE.search(body):
        return False
    kept = re.findall(r"self\.\w+\s*=\s*(?:\w+\.)*([A-Z]\w+)\(", body)
    if any(not words.STATELESS.match(name) and not where.module.names.bindings(name) for name in kept):
        return False
    for name in dict.fromkeys(re.findall(r"\b([A-Z]\w+)\(", body.partition(":")[2])):
        for other in (b.value for b in where.module.names.bindings(name) if b.kind == "class"):
            if other is None or same(other, class_) or not where.is_module_class(other):
                continue
            if not _is_stateless(where, other, depth + 1):
                return False
    return True


def _library_call(where: Homes, call: Call, name: str, env: Env, depth: int) -> Home | None:
    if name.startswith(("numpy", "np.")):
        return Home.OTHER
    last = name.rsplit(".", 1)[-1]
    if name == f"torch.{last}" and (last in words.FACTORIES or last in words.LEGACY or last == "from_numpy"):
        return made(where, call, last, env, depth)
    if last in words.LIKE or name == "torch.autograd.Variable" or name == "torch.as_tensor":
        return _like(where, call, name, env, depth)
    if name == "torch.utils.data.DataLoader":
        return Home.LOADER
    if is_parameter(name):
        return None
    if (name.startswith("torch.nn.") and last[:1].isupper()) or name.startswith("torchvision.models."):
        if words.STATELESS.match(last):
            return Home.STATELESS
        device = call.keyword("device")
        return Home.MODULE if device is None else Home.MOVED_MODULE
    if name.startswith(("torch.", "einops.")) and not words.NOT_TENSOR_OPS.match(name):
        if call.has_star and not any(a.starred is False for a in call.arguments):
            return None
        home = together(where.of(a.value, env, depth) for a in call.arguments if not a.starred)
        return home if home in TENSORS else None
    return None


def made(where: Homes, call: Call, last: str, env: Env | None = None, depth: int = 0) -> Home | None:
    """Where a factory makes its tensor."""
    device = call.keyword("device")
    if device is not None:
        return given(where, device.value, env, depth)
    if call.has_star and any(text(a.node).startswith("**") for a in call.arguments):
        return None
    if where.has_default_device or call.keyword("out") is not None or _under_default_device(call.node):
        return None
    first = call.positional[0].value if call.positional else None
    if last in ("tensor", "scalar_tensor"):
        listed = first is not None and (
            first.type in ("list", "tuple", "list_comprehension", "list_splat")
            or (first.type == "call" and (where.module.qualname(Call(first).function) or "").startswith("numpy.arange"))
            or (first.type == "identifier" and _is_list(where, first))
        )
        return Home.CPU if listed else Home.SCALAR
    if first is not None and len(call.positional) == 1 and text(first) in ("()", "[]"):
        return Home.SCALAR
    if last == "normal" and len(call.positional) < 3:
        return None
    return Home.CPU


def _is_list(where: Homes, name: Node) -> bool:
    bindings = where.reaching(name)
    return bool(bindings) and all(
        b.value is not None and b.value.type in ("list", "list_comprehension") for b in bindings
    )


def _like(where: Homes, call: Call, name: str, env: Env, depth: int) -> Home | None:
    device = call.keyword("device")
    if device is not None:
        return given(where, device.value, env, depth)
    if not call.positional:
        return None
    first = call.positional[0].value
    if name == "torch.as_tensor" and first.type in ("list", "list_comprehension", "tuple"):
        return None if where.has_default_device else Home.CPU
    home = where.of(first, env, depth)
    return Home.CPU if home is Home.SCALAR and not name.endswith("Variable") else home


def _method_call(where: Homes, call: Call, env: Env, depth: int) -> Home | None:
    method, receiver = call.method or "", call.receiver
    target = move_target(where, call, env, depth)
    home = where.of(receiver, env, depth)
    if target is not None:
        if home in (Home.MODULE, Home.MOVED_MODULE, Home.STATELESS):
            return Home.MODULE if target is Home.CPU else Home.MOVED_MODULE
        return target
    if method in words.NO_TENSOR:
        return Home.OTHER if home in TENSORS else None
    if home in (Home.MODULE, Home.MOVED_MODULE):
        return (
            home
            if method in ("train", "eval", "float", "half", "double", "bfloat16", "apply", "requires_grad_")
            else None
        )
    if home in TENSORS:
        if method in ("new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "new") and home is Home.SCALAR:
            return Home.CPU
        if home is Home.SCALAR and method in words.RESHAPING:
            return Home.CPU
        if method in words.REDUCTIONS and not call.arguments and home is Home.CPU:
            return Home.SCALAR
        homes = [home, *(where.of(a.value, env, depth) for a in call.arguments if method not in ("copy_",))]
        return together(h for h in homes if h in TENSORS)
    return None


def _under_default_device(node: Node) -> bool:
    return any(
        a.type == "with_statement"
        and re.match(r"with[^:]*\b(?:device|FakeTensorMode|init_empty_weights)\b", text(a)[:200])
        for a in ancestors(node)
    )


def is_parameter(name: str) -> bool:
    """Whether the qualified name of a class is one of what a module trains or registers by itself."""
    return name.endswith((".Parameter", ".Buffer")) or name == "Parameter"
