"""Where values live: whether an expression is a tensor made on the CPU, one that was moved, a module, or unknown.

A claim is only made from what the file itself says; whatever is not understood is `None`. Inside the methods of an
nn.Module that run after its construction, its inputs, parameters, buffers and layers count as moved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cached_property, lru_cache

from tree_sitter import Node

from anydevice.rules.site import Context
from anydevice.source.calls import Argument, Call
from anydevice.source.names import Binding
from anydevice.source.syntax import FUNCTIONS, ancestors, field, first_named, same, statement, string_value, strip_parens, text


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


FACTORIES = frozenset(
    ["zeros", "ones", "empty", "full", "arange", "range", "linspace", "logspace", "eye", "rand", "randn", "randint", "randperm", "tensor", "tril_indices", "triu_indices", "hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window", "normal", "cartesian_prod", "empty_strided", "scalar_tensor"]
)
LEGACY = frozenset(
    ["Tensor", "FloatTensor", "DoubleTensor", "HalfTensor", "LongTensor", "IntTensor", "ShortTensor", "ByteTensor", "CharTensor", "BoolTensor"]
)
LIKE = frozenset(["zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like"])
# Methods whose result is no tensor, or a host value.
_NO_TENSOR = frozenset(
    ["size", "dim", "ndimension", "numel", "nelement", "item", "tolist", "numpy", "stride", "get_device", "is_contiguous", "data_ptr", "element_size", "type_", "state_dict", "parameters", "named_parameters", "children", "modules", "eval_", "backward", "step", "zero_grad", "keys", "items_", "split_", "append", "extend", "format"]
)
_NO_TENSOR_ATTRIBUTES = frozenset(["shape", "device", "dtype", "ndim", "is_cuda", "is_leaf", "requires_grad", "itemsize", "layout", "in_features"])
_SAME_ATTRIBUTES = frozenset(["data", "T", "mT", "H", "real", "imag", "grad"])
_REDUCTIONS = frozenset(["sum", "mean", "max", "min", "prod", "norm", "std", "var", "median", "any", "all"])
_NOT_TENSOR_OPS = re.compile(
    r"torch\.(?:load|save|device|manual_seed|no_grad|enable_grad|set_\w+|get_\w+|is_\w+|jit\..*|compile|Size|Generator|"
    r"finfo|iinfo|cuda\..*|backends\..*|distributed\..*|utils\..*|optim\..*|nn\.utils\..*|hub\..*|onnx\..*|numel|"
    r"autocast|amp\..*|multiprocessing\..*|accelerator\..*|float\d*|int\d*|long|bool|half|double|"
    r"nn\.init\..*|random\..*|profiler\..*|library\..*|ops\..*|fx\..*|overrides\..*)\Z"
)
_DTYPE = re.compile(
    r"(?:\w+\.)*(?:float(?:16|32|64)?|double|half|bfloat16|u?int(?:8|16|32|64)?|long|short|bool|uint8|cfloat|complex\d+"
    r"|\w*dtype\w*|channels_last(?:_3d)?)\Z"
)
STATELESS = re.compile(
    r"(?:\w*Loss|\w*ReLU\d*|GELU|SiLU|ELU|SELU|CELU|Sigmoid|LogSigmoid|Tanh|Softmax\w*|LogSoftmax|Softplus|Dropout\w*|Flatten|"
    r"Unflatten|Identity|\w*Pool\dd|Upsample\w*|\w*Pad\dd|PixelShuffle|Unfold|Fold|CosineSimilarity|PairwiseDistance|"
    r"Mish|Hardtanh|Hardswish|Threshold)\Z"
)
_STATE = re.compile(
    r"Parameter\(|register_(?:buffer|parameter|module)\(|add_module\(|torchvision|from_pretrained|models\.\w+\("
    r"|nn\.(?!\w*(?:Loss|ReLU|Module|Softmax|Dropout|Pool|Pad|functional|init|utils|Parameter|Sigmoid|Tanh|Identity|Flatten)\b)"
    r"[A-Z]\w*\("
)
_PLAIN_PARAMETER = re.compile(
    r"(?:self|cls|n|k|i|j|h|w|d|c|t|b|bs|bsz|\w*(?:size|sizes|shape|dim|dims|len|lens|length|lengths|idx|step|steps|epoch"
    r"|device|dtype|mode|name|path|batch|count|rate|ratio|temperature|config|cfg|args|opts?|kwargs|eps|gamma|scale|max|min"
    r"|radius|npoint|nsample|height|width|depth|level|layer|type|key|fn|func|callback|tokenizer|verbose))\Z"
    r"|(?:n|num|max|min|use|is|with|return|no|do|output|input_size|seq_len)_"
)
_PLAIN_TYPE = re.compile(r"\b(?:int|float|bool|str|Size|Callable|dict|Dict|ndarray|Path|device|dtype)\b")
_DEFAULTS = re.compile(rb"set_default_(?:tensor_type|device)|with torch\.device\(")
_CONSTRUCTION = re.compile(
    r"__init__\Z|__new__\Z|__post_init__\Z|reset_parameters\Z|setup\Z|build|_build|_?init(?!_hidden|_state)|from_|load_|_load|make_"
)
_STATIC = re.compile(r"@(?:static|class)method")
_LOADER = re.compile(r"(?i)(?:\A|[._])(?:\w*loader|\w+_dl)\Z")
_MOVING = re.compile(rb"[Pp]refetch|[Aa]ccelerat(?:e\b|or\()|[Ll]ightning|[Ff]abric|deepspeed|to_device|DeviceLoader|prepare\(|nvidia\.dali")
_OTHERS_MOVE = re.compile(
    rb"[Aa]ccelerat(?:e\b|or\()|[Ll]ightning|\b[Ff]abric\b|deepspeed|\bTrainer\(|prepare\(|[Pp]refetch|DataParallel|to_device"
)
_WRAPPERS = frozenset({"enumerate", "tqdm", "tqdm.tqdm", "zip", "list", "tuple", "reversed", "next", "iter", "track", "trange"})
_DEPTH = 14

_TENSORS = frozenset({Home.CPU, Home.SCALAR, Home.DEVICE, Home.PLACED})

Env = dict[tuple[int, str], "Home | None"]


class Residence:
    """Answers for one file. Everything is looked up on demand and remembered."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.module = context.module
        self._memo: dict[tuple[int, frozenset[tuple[tuple[int, str], Home | None]]], Home | None] = {}
        self._active: set[tuple[int, str]] = set()
        self._module_classes: dict[int, bool] = {}
        self._after_move: dict[int, bool] = {}
        self._reaching: dict[int, list[Binding]] = {}
        self._uses: dict[str, tuple[Node, ...]] = {}

    # -- of a whole file ---------------------------------------------------------------------------------------

    @cached_property
    def has_default_device(self) -> bool:
        """Whether factories may make their tensors elsewhere than on the CPU."""
        return _DEFAULTS.search(self.module.data) is not None

    @cached_property
    def has_moves(self) -> bool:
        """Whether anything is moved by name."""
        return b".to(" in self.module.data or b".cuda(" in self.module.data

    @cached_property
    def others_move(self) -> bool:
        """Whether a library (or a function of the project) moves modules and batches out of sight."""
        return _OTHERS_MOVE.search(self.module.data) is not None

    @cached_property
    def batches_are_moved(self) -> bool:
        """Whether batches may come out of a loader on the device."""
        return _MOVING.search(self.module.data) is not None

    def is_module_class(self, class_: Node | None) -> bool:
        """Remembered form of `Context.is_module_class`."""
        if class_ is None:
            return False
        if class_.id not in self._module_classes:
            self._module_classes[class_.id] = self.context.is_module_class(class_)
        return self._module_classes[class_.id]

    # -- values ------------------------------------------------------------------------------------------------

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
        if kind in ("parenthesized_expression", "await", "unary_operator", "not_operator", "list_splat", "keyword_argument"):
            inner = field(node, "argument") or field(node, "value") or first_named(node)
            return self.of(inner, env, depth)
        if kind == "identifier":
            return self._identifier(node, env, depth)
        if kind == "attribute":
            return self._attribute(node, env, depth)
        if kind == "call":
            return self._call(Call(node), env, depth)
        if kind == "subscript":
            return self.of(field(node, "value"), env, depth)
        if kind in ("binary_operator", "comparison_operator", "boolean_operator"):
            return self.together(self.of(child, env, depth) for child in node.named_children)
        if kind in ("tuple", "list", "expression_list", "set"):
            return self.together(self.of(child, env, depth) for child in node.named_children)
        if kind == "dictionary":
            return self.together(self.of(field(p, "value"), env, depth) for p in node.named_children if p.type == "pair")
        if kind in ("list_comprehension", "generator_expression"):
            return self.of(field(node, "body"), env, depth)
        if kind == "conditional_expression":
            parts = [child for child in node.named_children if child.type != "comment"]
            return self._either([self.of(parts[0], env, depth), self.of(parts[-1], env, depth)]) if len(parts) == 3 else None
        if kind in ("integer", "float", "true", "false", "none", "string", "lambda"):
            return Home.OTHER
        return None

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

    # -- names -------------------------------------------------------------------------------------------------

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

    def reaching(self, use: Node) -> list[Binding]:
        """The bindings whose value `use` may see, nearest first: back to one that always happens."""
        if use.id not in self._reaching:
            self._reaching[use.id] = self._find_reaching(use)
        return self._reaching[use.id]

    def _find_reaching(self, use: Node) -> list[Binding]:
        bindings = [b for b in self.module.names.lookup(use) if not _is_update(b)]
        if len(bindings) <= 1:
            return bindings
        scope = bindings[0].scope
        around = {a.id for a in ancestors(use)}
        if scope.id not in around or (self.module.scope(use).id != scope.id and scope.type == "module"):
            return bindings
        owner = statement(use)
        before = [b for b in bindings if b.kind == "parameter" or b.node.start_byte < use.start_byte]
        found = []
        for binding in sorted(before, key=lambda b: -b.node.start_byte):
            if binding.kind == "parameter":
                found.append(binding)
                break
            made = statement(binding.node)
            if same(made, owner) and made.type not in ("for_statement", "with_statement", "while_statement", "if_statement"):
                continue
            found.append(binding)
            holder = made if made.type in ("for_statement", "with_statement") else made.parent
            if holder is None or holder.id in around or made.type == "with_statement":
                break
        return found or bindings

    def uses(self, name: str) -> tuple[Node, ...]:
        """Every use of a variable, `name += ...` included, in source order."""
        if name not in self._uses:
            bound = {b.node.id for b in self.module.names.bindings(name) if not _is_update(b)}
            references = {node.id for node in self.module.names.references(name)}
            updates = {b.node.id for b in self.module.names.bindings(name) if b.node.id not in bound}
            self._uses[name] = tuple(
                leaf for leaf in self.module.names.occurrences(name) if leaf.id in references or leaf.id in updates
            )
        return self._uses[name]

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
        while holder is not None and holder.type in ("pattern_list", "tuple_pattern", "list_pattern", "parenthesized_expression"):
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
        if value is not None and path and value.type == "call" and Call(value).method in ("shape", "size"):
            return Home.OTHER
        return self.of(value, env, depth)

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
            if name.rsplit(".", 1)[-1] in _WRAPPERS and call.positional:
                return self._element(call.positional[0].value, path, env, depth)
        home = self.of(iterable, env, depth)
        if home is Home.LOADER or (home is None and _LOADER.search(text(iterable)) and not self.batches_are_moved):
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
        if annotation is not None and _PLAIN_TYPE.search(text(annotation)) and "Tensor" not in text(annotation):
            return Home.OTHER
        self._active.add(key)
        try:
            if self.runs_after_move(binding.scope):
                return self._input(binding, name)
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
        if _PLAIN_PARAMETER.match(name):
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
        if re.search(rf"\b(?:if|elif|while|not)\s+{name}\b|\brange\(.*\b{name}\b|\*\*?{name}\b|\b{name}\.\w|\bin {name}\b", body):
            return None
        return Home.DEVICE if re.search(rf"[-+*/@]\s*{name}\b|\b{name}\s*[-+*/@]", body) else None

    # -- attributes --------------------------------------------------------------------------------------------

    def _attribute(self, node: Node, env: Env, depth: int) -> Home | None:
        attribute, owner = field(node, "attribute"), field(node, "object")
        if attribute is None or owner is None:
            return None
        name = text(attribute)
        if name in _NO_TENSOR_ATTRIBUTES:
            return Home.OTHER
        if name in _SAME_ATTRIBUTES:
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
        if in_module and any(value is not None and _is_parameter(self.module.qualname(_called(value)) or "") for value in values):
            return Home.DEVICE
        if home is Home.MODULE and self.module_moves(use, f"self.{name}"):
            return Home.MOVED_MODULE
        return home

    def attribute_values(self, class_: Node, name: str) -> Iterator[tuple[Node, Node | None]]:
        """(the `self.name` that is assigned to, the value or None) in one class."""
        for use in self.attribute_uses(class_, name):
            holder = use.parent
            if holder is not None and holder.type == "assignment" and same(field(holder, "left"), use):
                if field(holder, "right") is not None:
                    yield use, field(holder, "right")
            elif holder is not None and holder.type in ("pattern_list", "tuple_pattern"):
                yield use, None

    def attribute_uses(self, class_: Node, name: str) -> Iterator[Node]:
        """Every `self.name` in a class."""
        for leaf in self.module.names.occurrences(name):
            attribute = leaf.parent
            if (
                class_.start_byte <= leaf.start_byte < class_.end_byte
                and attribute is not None
                and attribute.type == "attribute"
                and same(field(attribute, "attribute"), leaf)
                and text(owner := field(attribute, "object") or attribute) == "self"
                and owner.type == "identifier"
            ):
                yield attribute

    def registered(self, class_: Node, name: str) -> bool:
        """Whether a class registers a buffer or parameter of this name."""
        return re.search(rf"register_(?:buffer|parameter)\(\s*(?:name\s*=\s*)?[\"']{re.escape(name)}[\"']", text(class_)) is not None

    # -- calls -------------------------------------------------------------------------------------------------

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
        if text(call.function) in ("list", "tuple", "sum") and call.positional:
            return self.of(call.positional[0].value, env, depth)
        callee = self.of(call.function, env, depth)
        if callee in (Home.MOVED_MODULE, Home.DEVICE):
            return Home.DEVICE
        if callee in (Home.MODULE, Home.STATELESS):
            return self.together(self.of(a.value, env, depth) for a in call.arguments)
        return None

    def _own_module(self, class_: Node, call: Call, env: Env, depth: int) -> Home | None:
        """An instance of a module class of this file: stateless, on the CPU, or moved by its own construction."""
        body = text(class_)
        init = self.method_of(class_, "__init__")
        if re.search(r"\bself\.(?:to|cuda)\(", body) or (init is not None and re.search(r"\.(?:cuda|to)\(|\bdevice\b", text(init))):
            return None
        device = call.keyword("device")
        if device is not None:
            return Home.MOVED_MODULE if self._given(device.value, env, depth) is Home.DEVICE else None
        if any("device" in text(a.value) for a in call.arguments):
            return None
        if _STATE.search(body) or not re.search(r"\bModule\)?\s*:|Module\s*\)", body[:200]):
            return Home.MODULE
        own = re.findall(r"\b([A-Z]\w+)\(", body)
        return Home.MODULE if any(b"class " + name.encode() in self.module.data for name in own) else Home.STATELESS

    def _library_call(self, call: Call, name: str, env: Env, depth: int) -> Home | None:
        if name.startswith(("numpy", "np.")):
            return Home.OTHER
        last = name.rsplit(".", 1)[-1]
        if name == f"torch.{last}" and (last in FACTORIES or last in LEGACY or last == "from_numpy"):
            return self.made(call, last, env, depth)
        if last in LIKE or name == "torch.autograd.Variable" or name == "torch.as_tensor":
            return self._like(call, name, env, depth)
        if name == "torch.utils.data.DataLoader":
            return Home.LOADER
        if _is_parameter(name):
            return None
        if (name.startswith("torch.nn.") and last[:1].isupper()) or name.startswith("torchvision.models."):
            if STATELESS.match(last):
                return Home.STATELESS
            device = call.keyword("device")
            return Home.MODULE if device is None else Home.MOVED_MODULE
        if name.startswith(("torch.", "einops.")) and not _NOT_TENSOR_OPS.match(name):
            if call.has_star and not any(a.starred is False for a in call.arguments):
                return None
            home = self.together(self.of(a.value, env, depth) for a in call.arguments if not a.starred)
            return home if home in _TENSORS else None
        return None

    def made(self, call: Call, last: str, env: Env | None = None, depth: int = 0) -> Home | None:
        """Where a factory makes its tensor."""
        device = call.keyword("device")
        if device is not None:
            return self._given(device.value, env, depth)
        if call.has_star and any(text(a.node).startswith("**") for a in call.arguments):
            return None
        if self.has_default_device or call.keyword("out") is not None or _under_default_device(call.node):
            return None
        first = call.positional[0].value if call.positional else None
        if last in ("tensor", "scalar_tensor"):
            listed = first is not None and (
                first.type in ("list", "tuple", "list_comprehension", "list_splat")
                or (first.type == "call" and (self.module.qualname(Call(first).function) or "").startswith("numpy.arange"))
                or (first.type == "identifier" and self._is_list(first))
            )
            return Home.CPU if listed else Home.SCALAR
        if last in ("zeros", "ones", "empty", "rand", "randn") and len(call.positional) == 1 and first is not None:
            if text(first) in ("()", "[]"):
                return Home.SCALAR
        if last == "normal" and len(call.positional) < 3:
            return None
        return Home.CPU

    def _is_list(self, name: Node) -> bool:
        bindings = self.reaching(name)
        return bool(bindings) and all(b.value is not None and b.value.type in ("list", "list_comprehension") for b in bindings)

    def _given(self, device: Node, env: Env | None = None, depth: int = 0) -> Home:
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
        if device.type == "attribute" and text(device).endswith(".device"):
            return self._beside(field(device, "object"), env, depth)
        if device.type == "identifier":
            for binding in self.module.names.lookup(device):
                if binding.kind == "parameter" and binding.value is not None and binding.value.type != "none":
                    return Home.PLACED  # `device="cpu"`: the caller decides
                if binding.value is not None and text(binding.value).endswith(".device"):
                    return self._beside(field(binding.value, "object"), env, depth)
        return Home.DEVICE

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
            return self._given(device.value, env, depth)
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
        if method in _NO_TENSOR:
            return Home.OTHER if home in _TENSORS else None
        if home in (Home.MODULE, Home.MOVED_MODULE):
            return home if method in ("train", "eval", "float", "half", "double", "bfloat16", "apply", "requires_grad_") else None
        if home in _TENSORS:
            if method in ("new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "new") and home is Home.SCALAR:
                return Home.CPU
            if method in _REDUCTIONS and not call.arguments and home is Home.CPU:
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
            return Home.PLACED if first is not None and not _DTYPE.match(text(first)) and first.type != "string" else None
        if method in ("type_as", "to") and call.arguments:
            argument = call.argument(0, "device", "other", "tensor")
            if argument is None:
                return None
            value = argument.value
            if method == "to" and argument.name is None and _DTYPE.match(text(value)):
                return self._given(call.positional[1].value, env, depth) if len(call.positional) > 1 else None
            home = self.of(value, env, depth)
            if home in (Home.CPU, Home.DEVICE, Home.PLACED):
                return home
            return Home.PLACED if method == "type_as" else self._given(value, env, depth)
        return None

    # -- functions of the file ---------------------------------------------------------------------------------

    def function_of(self, call: Call) -> Node | None:
        """The function or method of this file that a call runs."""
        function = call.function
        if function.type == "identifier":
            bindings = self.module.names.lookup(function)
            if len(bindings) == 1 and bindings[0].kind == "function":
                return bindings[0].value
            return None
        if function.type == "attribute" and call.method is not None:
            owner = call.receiver
            inside = self.module.class_(call.node) if owner is not None and text(owner) == "self" else None
            found = [
                b.value for b in self.module.names.bindings(call.method)
                if b.kind == "function" and b.value is not None and b.scope.type == "class_definition"
                and (inside is None or same(b.scope, inside))
            ]
            if len(found) == 1 and (inside is not None or call.method not in _COMMON_METHODS):
                return found[0]
        return None

    def class_of(self, node: Node) -> Node | None:
        """The class of this file that `node` names."""
        if node.type != "identifier":
            return None
        bindings = self.module.names.lookup(node)
        return bindings[0].value if len(bindings) == 1 and bindings[0].kind == "class" else None

    def instance_of(self, node: Node, depth: int = 0) -> Node | None:
        """The class of this file whose instance `node` is: a name, `self.x`, or what a loop takes out of a list of them."""
        values: list[Node | None] = []
        if depth > 4:
            return None
        if node.type == "identifier":
            values = [b.value or _iterated(b.node) for b in self.reaching(node)]
        elif node.type == "attribute" and (class_ := self.module.class_(node)) is not None:
            values = [v for _, v in self.attribute_values(class_, text(field(node, "attribute") or node))]
        elif node.type == "subscript":
            values = [field(node, "value")]
        if len(values) != 1 or values[0] is None:
            return None
        value = values[0]
        if value.type in ("identifier", "attribute", "subscript"):
            return self.instance_of(value, depth + 1)
        found: dict[int, Node] = {}
        for match in re.finditer(rb"\b[A-Z]\w*(?=\()", self.module.data[value.start_byte : value.end_byte]):
            leaf = self.module.leaf(value.start_byte + match.start(), value.start_byte + match.end())
            class_ = self.class_of(leaf) if leaf is not None else None
            if class_ is not None:
                found[class_.id] = class_
        if not found and value.type == "call" and (iterated := Call(value).positional) and text(Call(value).function) in _WRAPPERS:
            return self.instance_of(iterated[0].value, depth + 1)
        return next(iter(found.values())) if len(found) == 1 else None

    def method_of(self, class_: Node, name: str) -> Node | None:
        """A method that a class of this file defines."""
        return next(
            (b.value for b in self.module.names.bindings(name) if b.kind == "function" and same(b.scope, class_)), None
        )

    def returned(self, function: Node, call: Call, env: Env, depth: int) -> Home | None:
        """The home of what `function` returns for the arguments of `call`."""
        inner: Env = dict(env)
        for parameter, argument in self.matched(function, call):
            inner[function.id, parameter] = self.of(argument.value, env, depth)
        values = [self.of(value, inner, depth + 1) for value in self.returns(function)]
        return self._either(values)

    def returns(self, function: Node) -> Iterator[Node]:
        """The expressions that a function returns."""
        data = self.module.data
        for match in re.finditer(rb"\breturn\b", data[function.start_byte : function.end_byte]):
            leaf = self.module.leaf(function.start_byte + match.start(), function.start_byte + match.end())
            owner = leaf.parent if leaf is not None else None
            if owner is not None and owner.type == "return_statement" and same(self.module.function(owner), function):
                value = first_named(owner)
                if value is not None:
                    yield value

    def parameters(self, function: Node) -> list[str]:
        """The names of the positional parameters, `self` left out for methods."""
        listed = field(function, "parameters")
        names = []
        for child in listed.named_children if listed is not None else []:
            if child.type == "identifier":
                names.append(text(child))
            elif child.type in ("default_parameter", "typed_default_parameter"):
                names.append(text(field(child, "name") or child))
            elif child.type == "typed_parameter":
                names.append(text(first_named(child) or child))
        owner = function.parent
        is_static = owner is not None and owner.type == "decorated_definition" and "staticmethod" in text(owner)[:200]
        return names[1:] if names and names[0] in ("self", "cls") and not is_static else names

    def matched(self, function: Node, call: Call) -> Iterator[tuple[str, Argument]]:
        """(parameter, argument) of a call of a function of this file."""
        names = self.parameters(function)
        yield from zip(names, call.positional, strict=False)
        yield from ((a.name, a) for a in call.arguments if a.name in names)

    def callers(self, function: Node) -> Iterator[Call]:
        """The calls of a function, of a method (whatever it is called on), or of the class that an `__init__` belongs to."""
        name_node = field(function, "name")
        if name_node is None:
            return
        name, class_ = text(name_node), None
        if name in ("__init__", "forward", "__call__"):
            class_ = self.module.class_(function)
            if class_ is None or name != "__init__":
                return
            name = text(field(class_, "name") or name_node)
        for leaf in self.module.names.occurrences(name):
            reference = leaf.parent if leaf.parent is not None and leaf.parent.type == "attribute" else leaf
            call = reference.parent
            if call is not None and call.type == "call" and same(field(call, "function"), reference):
                yield Call(call)

    def passed(self, function: Node, parameter: str) -> Iterator[Argument]:
        """What this file passes for a parameter."""
        for call in self.callers(function):
            yield from (argument for name, argument in self.matched(function, call) if name == parameter)

    def same_function(self, a: Node, b: Node) -> bool:
        """Whether two nodes stand in one function, or both in none."""
        first, second = self.module.function(a), self.module.function(b)
        return same(first, second) or (first is None and second is None)

    def function_name(self, function: Node) -> str:
        """The name of a function."""
        name = field(function, "name")
        return text(name) if name is not None else ""

    def runs_after_move(self, function: Node | None) -> bool:
        """Whether a function is a method that runs once its nn.Module has been moved."""
        if function is None:
            return False
        if function.id not in self._after_move:
            self._after_move[function.id] = False
            self._after_move[function.id] = self._runs_after_move(function)
        return self._after_move[function.id]

    def _runs_after_move(self, function: Node) -> bool:
        class_, outer = self.module.class_(function), self.module.function(function)
        if outer is not None and (class_ is None or outer.start_byte > class_.start_byte):
            return self.runs_after_move(outer)
        if class_ is None or not self.is_module_class(class_):
            return False
        name = self.function_name(function)
        if _CONSTRUCTION.match(name):
            return False
        owner = function.parent
        if owner is not None and owner.type == "decorated_definition" and _STATIC.search(text(owner)[:200]):
            return False
        if name.startswith("forward"):
            return True
        callers = [self.module.function(c.node) for c in self.callers(function) if same(self.module.class_(c.node), class_)]
        return not callers or any(c is None or self.runs_after_move(c) for c in callers)

    # -- modules -----------------------------------------------------------------------------------------------

    def module_moves(self, use: Node, name: str) -> list[Call]:
        """The calls that move the module called `name`, those before `use` where they share a function."""
        return [
            call for call in self.moves_of(name, use)
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


_MODULE_CHAIN = frozenset(["to", "cuda", "eval", "train", "float", "half", "double", "bfloat16", "apply", "requires_grad_"])
_COMMON_METHODS = frozenset(
    ["forward", "__call__", "step", "update", "get", "add", "append", "sample", "reset", "load", "save", "train", "eval", "to", "cuda", "cpu", "state_dict", "parameters", "backward", "view", "size", "sum", "mean", "apply", "copy", "clone", "items", "keys", "values", "fit", "predict", "encode", "decode", "run"]
)


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
        if call.method not in _MODULE_CHAIN:
            return None
        node = outer


def _is_update(binding: Binding) -> bool:
    holder = binding.node.parent
    return holder is not None and holder.type == "augmented_assignment"


def _iterated(target: Node) -> Node | None:
    """What the loop runs over that binds `target`."""
    holder = target.parent
    while holder is not None and holder.type in ("pattern_list", "tuple_pattern", "list_pattern"):
        holder = holder.parent
    return field(holder, "right") if holder is not None and holder.type in ("for_statement", "for_in_clause") else None


def _is_parameter(name: str) -> bool:
    return name.endswith((".Parameter", ".Buffer")) or name == "Parameter"


def _called(value: Node) -> Node | None:
    value = strip_parens(value)
    return Call(value).function if value.type == "call" else None


def _under_default_device(node: Node) -> bool:
    return any(
        a.type == "with_statement" and re.match(r"with[^:]*\b(?:device|FakeTensorMode|init_empty_weights)\b", text(a)[:200])
        for a in ancestors(node)
    )


@lru_cache(maxsize=2)
def residence(context: Context) -> Residence:
    """The (remembered) answers for one file."""
    return Residence(context)


__all__ = ["FACTORIES", "FUNCTIONS", "LEGACY", "Home", "Residence", "moved_by", "residence"]
