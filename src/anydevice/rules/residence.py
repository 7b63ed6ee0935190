"""Where values live: whether an expression is a tensor made on the CPU, one that was moved, a module, or unknown.

A claim is only made from what the file itself says; whatever is not understood is `None`. Inside the methods of an
nn.Module that run after its construction, its inputs, parameters, buffers and layers count as moved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from typing import Any

from tree_sitter import Node

from anydevice.rules import tensor_words as words
from anydevice.rules.program import Program
from anydevice.rules.site import Context
from anydevice.source.calls import Call
from anydevice.source.names import Binding
from anydevice.source.syntax import ancestors, field, first_named, same, string_value, strip_parens, text

_DEPTH = 14


class Home(Enum):
    """What is known of a value."""

    CPU = "a tensor on the CPU"
    SCALAR = "a 0-dim tensor on the CPU, which may meet tensors of any device"
    DEVICE = "a tensor (or whatever has `.to`) that was moved to the chosen device"
    MODULE = "a module on the CPU"
    MOVED_MODULE = "a module that was moved"
    STATELESS = "a module without tensors of its own"
    LOADER = "an iterable of CPU tensors"
    PLACED = "a tensor that was put on a device, no telling which"
    OTHER = "no tensor at all"


_TENSORS = frozenset({Home.CPU, Home.SCALAR, Home.DEVICE, Home.PLACED})

Env = dict[tuple[int, str], "Home | None"]


class Residence(Program):
    """Answers for one file. Everything is looked up on demand and remembered."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._memo: dict[tuple[int, frozenset[tuple[tuple[int, str], Home | None]]], Home | None] = {}
        self._active: set[tuple[int, str]] = set()
        self.remembered: dict[int, Any] = {}  # what those who ask have found out, by node

    # -- values --------------------------------------------------------------------------------------------------

    def of(self, node: Node | None, env: Env | None = None, depth: int = 0) -> Home | None:
        """The home of the value of `node`; None when unknown. `env` says where the parameters of functions live."""
        if node is None or depth > _DEPTH:
            return None
        env = env or {}
        key = (node.id, frozenset(env.items()))
        if key not in self._memo:
            self._memo[key] = None  # what a cycle sees
            self._memo[key] = self._of(node, env, depth + 1)
        return self._memo[key]

    def _of(self, node: Node, env: Env, depth: int) -> Home | None:
        kind = node.type
        if kind in (
            "parenthesized_expression",
            "await",
            "unary_operator",
            "not_operator",
            "list_splat",
            "keyword_argument",
        ):
            inner = field(node, "argument") or field(node, "value") or first_named(node)
            return self.of(inner, env, depth)
        if kind == "identifier":
            return self._identifier(node, env, depth)
        if kind == "attribute":
            return self._attribute(node, env, depth)
        if kind == "call":
            return self._call(Call(node), env, depth)
        if kind == "subscript":
            return self._subscript(node, env, depth)
        if kind in ("binary_operator", "comparison_operator", "boolean_operator"):
            return self.together(self.of(child, env, depth) for child in node.named_children)
        if kind in ("tuple", "list", "expression_list", "set"):
            return self.together(self.of(child, env, depth) for child in node.named_children)
        if kind == "dictionary":
            return self.together(
                self.of(field(p, "value"), env, depth) for p in node.named_children if p.type == "pair"
            )
        if kind in ("list_comprehension", "generator_expression"):
            return self.of(field(node, "body"), env, depth)
        if kind == "conditional_expression":
            parts = [child for child in node.named_children if child.type != "comment"]
            return (
                self._either([self.of(parts[0], env, depth), self.of(parts[-1], env, depth)])
                if len(parts) == 3
                else None
            )
        if kind in ("integer", "float", "true", "false", "none", "string", "lambda"):
            return Home.OTHER
        return None

    def _subscript(self, node: Node, env: Env, depth: int) -> Home | None:
        value = field(node, "value")
        home = self.of(value, env, depth)
        if value is None or home not in (Home.CPU, Home.SCALAR):
            return home
        if self.takes_one(node) and not self.is_container(value):
            return Home.SCALAR  # one of a vector: 0-dim
        return Home.CPU  # what can be indexed has dimensions

    def takes_one(self, subscript: Node) -> bool:
        """Whether a subscript takes one element by its number: `x[0]`, `x[-1]`, `x[i]` in a loop."""
        indices = subscript.children_by_field_name("subscript")
        if len(indices) != 1:
            return False
        index = indices[0]
        if index.type == "identifier":
            home = self.of(index)
            return home is Home.OTHER or (home is None and words.INDEX_NAME.match(text(index)) is not None)
        return index.type in ("integer", "unary_operator")

    @staticmethod
    def together(homes: Iterable[Home | None]) -> Home | None:
        """Where the result of an operation on several values lives."""
        found = list(homes)
        for home in (Home.DEVICE, Home.PLACED, Home.CPU, Home.SCALAR):
            if home in found:
                return home if home is not Home.SCALAR or None not in found else None
        if found and all(home is Home.OTHER for home in found):
            return Home.OTHER
        return next((home for home in found if home in (Home.MODULE, Home.MOVED_MODULE)), None)

    @staticmethod
    def _either(homes: list[Home | None]) -> Home | None:
        """What is known of a value that may be any of several: moved if one is, else what all agree on."""
        for home in (Home.DEVICE, Home.PLACED, Home.MOVED_MODULE):
            if home in homes:
                return home
        known = [home for home in homes if home is not Home.OTHER]
        return known[0] if known and len(set(known)) == 1 else (Home.OTHER if homes and not known else None)

    # -- names ---------------------------------------------------------------------------------------------------

    def _identifier(self, node: Node, env: Env, depth: int) -> Home | None:
        name = text(node)
        bindings = self.reaching(node)
        if not bindings:
            return None
        homes = [self.of_binding(binding, env, depth) for binding in bindings]
        home = self._either(homes)
        if home is Home.MODULE and self.module_moves(node, name):
            return Home.MOVED_MODULE
        return home

    def of_binding(self, binding: Binding, env: Env | None = None, depth: int = 0) -> Home | None:
        """The home of the value that a binding gives to its name."""
        env = env or {}
        if binding.kind == "parameter":
            return self._parameter(binding, env, depth)
        if binding.kind in ("import", "function", "class"):
            return None
        if binding.value is not None:
            return self.of(binding.value, env, depth)
        return self._pattern(binding.node, env, depth)

    def _pattern(self, node: Node, env: Env, depth: int) -> Home | None:
        """A name bound among others: `a, b = ...`, `for i, (x, y) in enumerate(loader)`."""
        path: list[int] = []
        child, holder = node, node.parent
        while holder is not None and holder.type in (
            "pattern_list",
            "tuple_pattern",
            "list_pattern",
            "parenthesized_expression",
        ):
            path.insert(0, [c.id for c in holder.named_children].index(child.id))
            child, holder = holder, holder.parent
        if holder is None:
            return None
        if holder.type == "assignment":
            return self._taken(field(holder, "right"), path, env, depth)
        if holder.type in ("for_statement", "for_in_clause"):
            return self._element(field(holder, "right"), path, env, depth)
        return None

    def _taken(self, value: Node | None, path: list[int], env: Env, depth: int) -> Home | None:
        while value is not None and path and value.type in ("expression_list", "tuple", "list"):
            value = value.named_child(path[0]) if path[0] < value.named_child_count else None
            path = path[1:]
        if value is not None and path and value.type == "call":
            function = self.function_of(Call(value))
            if function is not None:
                return self._returned_at(function, Call(value), path[0], env, depth)
            if self.of(value, env, depth) in (Home.MODULE, Home.MOVED_MODULE):
                return None
        return self.of(value, env, depth)

    def _returned_at(self, function: Node, call: Call, index: int, env: Env, depth: int) -> Home | None:
        """The home of one of several values that a function of this file returns."""
        inner = self._frame(function, call, env, depth)
        homes = []
        for value in self.returns(function):
            parts = value.named_children if value.type in ("expression_list", "tuple") else []
            homes.append(self.of(parts[index], inner, depth + 1) if index < len(parts) else None)
        return self._either(homes)

    def _element(self, iterable: Node | None, path: list[int], env: Env, depth: int) -> Home | None:
        """The home of what a loop takes out of `iterable`."""
        if iterable is None:
            return None
        if iterable.type == "call":
            call = Call(iterable)
            name = text(call.function)
            if name == "range":
                return Home.OTHER
            if name == "enumerate" and call.positional and path:
                return Home.OTHER if path[0] == 0 else self._element(call.positional[0].value, path[1:], env, depth)
            if name == "zip" and path and path[0] < len(call.positional):
                return self._element(call.positional[path[0]].value, path[1:], env, depth)
            if name.rsplit(".", 1)[-1] in words.WRAPPERS and call.positional:
                return self._element(call.positional[0].value, path, env, depth)
        home = self.of(iterable, env, depth)
        if home is Home.LOADER or (home is None and words.LOADER.search(text(iterable)) and not self.batches_are_moved):
            return Home.CPU
        return home if home in (Home.CPU, Home.DEVICE, Home.PLACED, Home.MODULE, Home.MOVED_MODULE) else None

    def _parameter(self, binding: Binding, env: Env, depth: int) -> Home | None:
        name = text(binding.node)
        key = (binding.scope.id, name)
        if key in env:
            return env[key]
        if key in self._active or binding.scope.type != "function_definition":
            return None
        annotation = field(binding.node.parent, "type") if binding.node.parent is not None else None
        if annotation is not None and words.PLAIN_TYPE.search(text(annotation)) and "Tensor" not in text(annotation):
            return Home.OTHER
        self._active.add(key)
        try:
            if self.runs_after_move(binding.scope):
                assumed = self._input(binding, name)
                if assumed is not None or self.function_name(binding.scope) != "forward":
                    return assumed
            homes = [self.of(a.value, None, depth + 2) for a in self.passed(binding.scope, name)]
            if Home.DEVICE in homes:
                return Home.DEVICE
            if Home.PLACED in homes:
                return Home.PLACED
            return homes[0] if homes and len(set(homes)) == 1 else None
        finally:
            self._active.discard(key)

    def _input(self, binding: Binding, name: str) -> Home | None:
        """An argument of a module's method: a tensor beside the module, unless it looks like a plain value."""
        function = binding.scope
        if words.PLAIN_PARAMETER.match(name):
            return None
        if binding.value is not None and binding.value.type != "none":
            return None
        body = text(function)
        looks = re.search(
            rf"\b{name}(?:\.(?:size|shape|view|dim|device|new\w*|unsqueeze|squeeze|permute|transpose|reshape|contiguous|expand"
            rf"|type_as|float|detach|mean|sum|flatten|data|repeat|T|chunk|split|masked_fill)\b|\[[^\]]*[:,])"
            rf"|\b(?:self\.\w+|F\.\w+|torch\.\w+)\(\s*{name}\b",
            body,
        )
        if looks:
            return Home.DEVICE
        if self.function_name(function) != "forward":
            return None
        if re.search(
            rf"\b(?:if|elif|while|not)\s+{name}\b|\brange\(.*\b{name}\b|\*\*?{name}\b|\b{name}\.\w|\bin {name}\b", body
        ):
            return None
        return Home.DEVICE if re.search(rf"[-+*/@]\s*{name}\b|\b{name}\s*[-+*/@]", body) else None

    # -- attributes ----------------------------------------------------------------------------------------------

    def _attribute(self, node: Node, env: Env, depth: int) -> Home | None:
        attribute, owner = field(node, "attribute"), field(node, "object")
        if attribute is None or owner is None:
            return None
        name = text(attribute)
        if name in words.NO_TENSOR_ATTRIBUTES:
            return Home.OTHER
        if name in words.SAME_ATTRIBUTES:
            return self.of(owner, env, depth)
        if owner.type == "identifier" and text(owner) == "self":
            return self.of_attribute(node, name, depth)
        return None

    def of_attribute(self, use: Node, name: str, depth: int = 0) -> Home | None:
        """The home of `self.name` as seen at `use`."""
        class_ = self.module.class_(use)
        if class_ is None:
            return None
        in_module = self.is_module_class(class_)
        if in_module and self.registered(class_, name):
            return Home.DEVICE
        values = [value for _, value in self.attribute_values(class_, name)]
        if not values:
            return None
        homes = [self.of(value, None, depth + 1) if value is not None else None for value in values]
        home = self._either(homes)
        if in_module and home in (Home.MODULE, Home.MOVED_MODULE):
            return Home.MOVED_MODULE
        if in_module and any(
            value is not None and _is_parameter(self.module.qualname(_called(value)) or "") for value in values
        ):
            return Home.DEVICE
        if home is Home.MODULE and self.module_moves(use, f"self.{name}"):
            return Home.MOVED_MODULE
        return home

    # -- calls ---------------------------------------------------------------------------------------------------

    def _call(self, call: Call, env: Env, depth: int) -> Home | None:
        name = self.module.qualname(call.function)
        if name is not None and (name.startswith(("torch", "einops.")) or name.split(".")[0] in ("numpy", "np")):
            return self._library_call(call, name, env, depth)
        if call.receiver is not None:
            home = self._method_call(call, env, depth)
            if home is not None:
                return home
        function = self.function_of(call)
        if function is not None:
            return self.returned(function, call, env, depth)
        class_ = self.class_of(call.function)
        if class_ is not None:
            return self._own_module(class_, call, env, depth) if self.is_module_class(class_) else None
        if text(call.function) in ("next", "iter") and call.positional:
            return self._element(call.positional[0].value, [], env, depth)
        if text(call.function) in ("len", "int", "float", "range", "str", "bool"):
            return Home.OTHER
        if text(call.function) in ("list", "tuple", "sum", "deepcopy", "copy.deepcopy") and call.positional:
            return self.of(call.positional[0].value, env, depth)
        callee = self.of(call.function, env, depth)
        if callee in (Home.MOVED_MODULE, Home.DEVICE):
            return Home.DEVICE
        if callee in (Home.MODULE, Home.STATELESS):
            return self.together(self.of(a.value, env, depth) for a in call.arguments)
        if callee is None and words.MODEL_NAME.search(text(call.function)[-30:]):
            homes = [self.of(a.value, env, depth) for a in call.arguments]
            return Home.DEVICE if Home.DEVICE in homes else None
        return None

    def _own_module(self, class_: Node, call: Call, env: Env, depth: int) -> Home | None:
        """An instance of a module class of this file: stateless, on the CPU, or moved by its own construction."""
        body = text(class_)
        init = self.method_of(class_, "__init__")
        if re.search(r"\bself\.(?:to|cuda)\(", body) or (
            init is not None and re.search(r"\.(?:cuda|to)\(|\bdevice\b", text(init))
        ):
            return None
        device = call.keyword("device")
        if device is not None:
            return Home.MOVED_MODULE if self.given(device.value, env, depth) is Home.DEVICE else None
        if any("device" in text(a.value) for a in call.arguments):
            return None
        return Home.STATELESS if self._is_stateless(class_) else Home.MODULE

    def _is_stateless(self, class_: Node, depth: int = 0) -> bool:
        """Whether a module class of this file has no tensors: none of its own, none in the modules it is made of."""
        body = text(class_)
        plain = re.search(r"\bModule\)?\s*:|Module\s*\)", body[:200]) is not None
        if not plain or depth > 3 or words.STATE.search(body):
            return False
        kept = re.findall(r"self\.\w+\s*=\s*(?:\w+\.)*([A-Z]\w+)\(", body)
        if any(not words.STATELESS.match(name) and not self.module.names.bindings(name) for name in kept):
            return False
        for name in dict.fromkeys(re.findall(r"\b([A-Z]\w+)\(", body.partition(":")[2])):
            for other in (b.value for b in self.module.names.bindings(name) if b.kind == "class"):
                if other is None or same(other, class_) or not self.is_module_class(other):
                    continue
                if not self._is_stateless(other, depth + 1):
                    return False
        return True

    def _library_call(self, call: Call, name: str, env: Env, depth: int) -> Home | None:
        if name.startswith(("numpy", "np.")):
            return Home.OTHER
        last = name.rsplit(".", 1)[-1]
        if name == f"torch.{last}" and (last in words.FACTORIES or last in words.LEGACY or last == "from_numpy"):
            return self.made(call, last, env, depth)
        if last in words.LIKE or name == "torch.autograd.Variable" or name == "torch.as_tensor":
            return self._like(call, name, env, depth)
        if name == "torch.utils.data.DataLoader":
            return Home.LOADER
        if _is_parameter(name):
            return None
        if (name.startswith("torch.nn.") and last[:1].isupper()) or name.startswith("torchvision.models."):
            if words.STATELESS.match(last):
                return Home.STATELESS
            device = call.keyword("device")
            return Home.MODULE if device is None else Home.MOVED_MODULE
        if name.startswith(("torch.", "einops.")) and not words.NOT_TENSOR_OPS.match(name):
            if call.has_star and not any(a.starred is False for a in call.arguments):
                return None
            home = self.together(self.of(a.value, env, depth) for a in call.arguments if not a.starred)
            return home if home in _TENSORS else None
        return None

    def made(self, call: Call, last: str, env: Env | None = None, depth: int = 0) -> Home | None:
        """Where a factory makes its tensor."""
        device = call.keyword("device")
        if device is not None:
            return self.given(device.value, env, depth)
        if call.has_star and any(text(a.node).startswith("**") for a in call.arguments):
            return None
        if self.has_default_device or call.keyword("out") is not None or _under_default_device(call.node):
            return None
        first = call.positional[0].value if call.positional else None
        if last in ("tensor", "scalar_tensor"):
            listed = first is not None and (
                first.type in ("list", "tuple", "list_comprehension", "list_splat")
                or (
                    first.type == "call"
                    and (self.module.qualname(Call(first).function) or "").startswith("numpy.arange")
                )
                or (first.type == "identifier" and self._is_list(first))
            )
            return Home.CPU if listed else Home.SCALAR
        if first is not None and len(call.positional) == 1 and text(first) in ("()", "[]"):
            return Home.SCALAR
        if last == "normal" and len(call.positional) < 3:
            return None
        return Home.CPU

    def _is_list(self, name: Node) -> bool:
        bindings = self.reaching(name)
        return bool(bindings) and all(
            b.value is not None and b.value.type in ("list", "list_comprehension") for b in bindings
        )

    def given(self, device: Node, env: Env | None = None, depth: int = 0) -> Home:
        """The home that a `device=` argument asks for."""
        env = env or {}
        literal = self.module.names.constant(device)
        if literal is None and device.type == "identifier":
            bindings = self.module.names.lookup(device)
            if len(bindings) == 1 and bindings[0].kind == "assignment" and bindings[0].value is not None:
                device = bindings[0].value
        if literal is None and device.type == "call" and self.module.qualname(Call(device).function) == "torch.device":
            argument = Call(device).argument(0, "type", "device")
            literal = string_value(argument.value) if argument is not None else None
        if literal is not None:
            return Home.CPU if literal.startswith("cpu") else Home.PLACED if literal.startswith("meta") else Home.DEVICE
        if device.type == "none":
            return Home.CPU
        if device.type == "attribute" and text(device).startswith("self.") and text(device).count(".") == 1:
            return self._kept_device(device)
        if device.type == "attribute" and text(device).endswith(".device"):
            return self._beside(field(device, "object"), env, depth)
        if device.type == "identifier":
            for binding in self.module.names.lookup(device):
                if binding.kind == "parameter" and binding.value is not None and binding.value.type != "none":
                    return Home.PLACED  # `device="cpu"`: the caller decides
                if binding.value is not None and text(binding.value).endswith(".device"):
                    return self._beside(field(binding.value, "object"), env, depth)
        return Home.DEVICE

    def _kept_device(self, device: Node) -> Home:
        """The home that `self.device` stands for."""
        class_ = self.module.class_(device)
        values = [v for _, v in self.attribute_values(class_, text(device)[5:])] if class_ is not None else []
        on_cpu = [
            v is not None and re.fullmatch(r"(?:torch\.device\(\s*)?[\"']cpu[\"']\)?", text(v)) is not None
            for v in values
        ]
        if values and all(on_cpu):
            return Home.CPU
        return Home.PLACED if any(on_cpu) else Home.DEVICE

    def _beside(self, node: Node | None, env: Env, depth: int) -> Home:
        """The home of what is made with `device=node.device`."""
        home = self.of(node, env, depth)
        if home in (Home.CPU, Home.DEVICE):
            return home
        if home is Home.MOVED_MODULE or (node is not None and text(node) == "self"):
            return Home.DEVICE
        return Home.PLACED

    def _like(self, call: Call, name: str, env: Env, depth: int) -> Home | None:
        device = call.keyword("device")
        if device is not None:
            return self.given(device.value, env, depth)
        if not call.positional:
            return None
        first = call.positional[0].value
        if name == "torch.as_tensor" and first.type in ("list", "list_comprehension", "tuple"):
            return None if self.has_default_device else Home.CPU
        home = self.of(first, env, depth)
        return Home.CPU if home is Home.SCALAR and not name.endswith("Variable") else home

    def _method_call(self, call: Call, env: Env, depth: int) -> Home | None:
        method, receiver = call.method or "", call.receiver
        target = self.move_target(call, env, depth)
        home = self.of(receiver, env, depth)
        if target is not None:
            if home in (Home.MODULE, Home.MOVED_MODULE, Home.STATELESS):
                return Home.MODULE if target is Home.CPU else Home.MOVED_MODULE
            return target
        if method in words.NO_TENSOR:
            return Home.OTHER if home in _TENSORS else None
        if home in (Home.MODULE, Home.MOVED_MODULE):
            return (
                home
                if method in ("train", "eval", "float", "half", "double", "bfloat16", "apply", "requires_grad_")
                else None
            )
        if home in _TENSORS:
            if (
                method in ("new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "new")
                and home is Home.SCALAR
            ):
                return Home.CPU
            if home is Home.SCALAR and method in words.RESHAPING:
                return Home.CPU
            if method in words.REDUCTIONS and not call.arguments and home is Home.CPU:
                return Home.SCALAR
            homes = [home, *(self.of(a.value, env, depth) for a in call.arguments if method not in ("copy_",))]
            return self.together(h for h in homes if h in _TENSORS)
        return None

    def move_target(self, call: Call, env: Env | None = None, depth: int = 0) -> Home | None:
        """Where a `.to(...)`, `.cuda()`, `.cpu()`, `.type_as(...)` sends its receiver; None when it is no move."""
        method = call.method
        if method in ("cuda", "xpu", "npu", "mps"):
            return Home.DEVICE
        if method == "cpu":
            return Home.CPU
        if method == "type":
            first = call.positional[0].value if call.positional else None
            return (
                Home.PLACED
                if first is not None and not words.DTYPE.match(text(first)) and first.type != "string"
                else None
            )
        if method in ("type_as", "to") and call.arguments:
            argument = call.argument(0, "device", "other", "tensor")
            if argument is None:
                return None
            value = argument.value
            if method == "to" and argument.name is None and words.DTYPE.match(text(value)):
                return self.given(call.positional[1].value, env, depth) if len(call.positional) > 1 else None
            home = self.of(value, env, depth)
            if home in (Home.CPU, Home.DEVICE, Home.PLACED):
                return home
            return Home.PLACED if method == "type_as" else self.given(value, env, depth)
        return None

    def returned(self, function: Node, call: Call, env: Env, depth: int) -> Home | None:
        """The home of what `function` returns for the arguments of `call`."""
        inner = self._frame(function, call, env, depth)
        values = [self.of(value, inner, depth + 1) for value in self.returns(function)]
        return self._either(values)

    def _frame(self, function: Node, call: Call, env: Env, depth: int) -> Env:
        """Where the parameters of `function` live during `call`."""
        inner: Env = dict(env)
        for parameter, argument in self.matched(function, call):
            inner[function.id, parameter] = self.of(argument.value, env, depth)
        return inner

    # -- moves of modules ----------------------------------------------------------------------------------------

    def module_moves(self, use: Node, name: str) -> list[Call]:
        """The calls that move the module called `name`, those before `use` where they share a function."""
        return [
            call
            for call in self.moves_of(name, use)
            if call.node.start_byte < use.start_byte or not self.same_function(call.node, use)
        ]

    def moves_of(self, name: str, use: Node) -> list[Call]:
        """The `name.to(device)` and `name.cuda()` calls in the scope of `use`, in source order."""
        last = name.rsplit(".", 1)[-1]
        class_ = self.module.class_(use) if name.startswith("self.") else None
        found = []
        for leaf in self.module.names.occurrences(last):
            if class_ is not None and not class_.start_byte <= leaf.start_byte < class_.end_byte:
                continue
            reference = leaf
            if "." in name:
                if leaf.parent is None or text(leaf.parent) != name:
                    continue
                reference = leaf.parent
            call = moved_by(reference)
            if call is not None and self.move_target(call) in (Home.DEVICE, Home.PLACED):
                found.append(call)
        return found


def moved_by(reference: Node) -> Call | None:
    """The `.to(...)`/`.cuda()` call at the end of `reference.train().float().to(...)`, if there is one."""
    node = reference
    while True:
        attribute = node.parent
        if attribute is None or attribute.type != "attribute" or not same(field(attribute, "object"), node):
            return None
        outer = attribute.parent
        if outer is None or outer.type != "call" or not same(field(outer, "function"), attribute):
            return None
        call = Call(outer)
        if call.method in ("to", "cuda", "xpu", "npu", "to_empty"):
            return call
        if call.method not in words.MODULE_CHAIN:
            return None
        node = outer


def _is_parameter(name: str) -> bool:
    return name.endswith((".Parameter", ".Buffer")) or name == "Parameter"


def _called(value: Node) -> Node | None:
    value = strip_parens(value)
    return Call(value).function if value.type == "call" else None


def _under_default_device(node: Node) -> bool:
    return any(
        a.type == "with_statement"
        and re.match(r"with[^:]*\b(?:device|FakeTensorMode|init_empty_weights)\b", text(a)[:200])
        for a in ancestors(node)
    )


@lru_cache(maxsize=2)
def residence(context: Context) -> Residence:
    """The (remembered) answers for one file."""
    return Residence(context)
