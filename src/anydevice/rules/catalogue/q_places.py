"""Group Q, places: device numbers used as devices, the user's device thrown away, and arrays fetched without `.cpu()`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.choice import device_value
from anydevice.rules.residence import Home, Residence, residence
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, field, same, string_value, strip_parens, text

_HEAD = "import torch\n"
_TENSOR = r"\.(?:size|shape|dim|view|new\w*|unsqueeze|squeeze|permute|transpose|reshape|contiguous|expand|type_as|float|detach|data)\b"


class GetDeviceAsDevice(PythonRule):
    """`x.get_device()` is the number of a GPU, and -1 on the CPU, which is no device.

    Instead: `x.device`, which works on every device.

    References: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.get_device.html
    """

    code = "ADQ12"
    name = "get-device-as-device"
    summary = "`x.get_device()` is no device on the CPU"
    anchors = ("get_device",)
    examples = (
        Example(
            "an argument",
            _HEAD + "def f(x):\n    return torch.zeros(x.size(0), device=x.get_device())\n",
            _HEAD + "def f(x):\n    return torch.zeros(x.size(0), device=x.device)\n",
        ),
        Example(
            "a name used as a device",
            _HEAD
            + "def f(x):\n    d = x.get_device()\n    m = torch.eye(x.size(0), device=d)\n    return m + torch.ones(3).to(d)\n",
            _HEAD
            + "def f(x):\n    d = x.device\n    m = torch.eye(x.size(0), device=d)\n    return m + torch.ones(3).to(d)\n",
        ),
        Example(
            "compared and used",
            _HEAD
            + "def f(x):\n    d = x.get_device()\n    if d >= 0:\n        return torch.ones(x.size(0)).to(d)\n    return x.view(1)\n",
        ),
        Example(
            "a device made of it",
            _HEAD + 'def f(x):\n    return torch.device("cuda:%d" % x.get_device()), x.view(1)\n',
            _HEAD + "def f(x):\n    return x.device, x.view(1)\n",
        ),
        Example("a name of a device", _HEAD + 'def f(x):\n    return x.view(1).to("cuda:%d" % x.get_device())\n'),
    )
    leaves = (
        Leave(
            _HEAD + "def f(x):\n    if x.get_device() < 0:\n        return x.view(1)\n", "a comparison works everywhere"
        ),
        Leave("from mine import get_device\nmodel.to(get_device())\n", "a function of one's own"),
        Leave("import mine\nmodel.to(mine.get_device())\n", "a function of another module"),
        Leave(
            "class A:\n    def get_device(self):\n        return 1\nprint(torch.ones(3, device=a.get_device()))\n",
            "a method of one's own",
        ),
        Leave(_HEAD + "print(x.get_device())\n", "only shown"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.method_call
        if call is None or call.arguments or call.receiver is None or self._is_own(site, call.receiver):
            return
        parent = call.node.parent
        if parent is not None and parent.type == "assignment":
            yield from self._named(site, call, parent)
            return
        maker = _maker(site.context, call.node)
        if maker is not None:
            shown = text(call.receiver)
            yield site.context.finding(
                self,
                call.node,
                f"the number is -1 on the CPU; write `{shown}.device` for `{text(maker)[:50]}`",
                Safety.SAFE if _looks_like_tensor(site.context, call.receiver) else Safety.UNSAFE,
                [site.module.replace(maker, f"{shown}.device")],
            )
            return
        use = _use_of_device(site.context, call.node)
        if use == "device":
            yield self._replaced(site, call)
        elif use == "text":
            yield site.context.finding(
                self, call.node, f"the number is -1 on the CPU; write `{text(call.receiver)}.device`", Safety.MANUAL
            )

    def _is_own(self, site: Site, receiver: Node) -> bool:
        if b"def get_device(" in site.module.data or text(receiver) == "self":
            return True
        root = receiver
        while root.type == "attribute" and (inner := field(root, "object")) is not None:
            root = inner
        return root.type == "identifier" and any(b.kind in ("import", "class") for b in site.module.names.lookup(root))

    def _replaced(self, site: Site, call: Call) -> Finding:
        receiver = call.receiver
        assert receiver is not None
        safety = Safety.SAFE if _looks_like_tensor(site.context, receiver) else Safety.UNSAFE
        edit = site.module.edit(site.leaf.start_byte, call.node.end_byte, "device")
        shown = text(receiver)[:40]
        return site.context.finding(
            self,
            call.node,
            f"`{shown}.get_device()` is -1 on the CPU, which is no device; write `{shown}.device`",
            safety,
            [edit],
        )

    def _named(self, site: Site, call: Call, assignment: Node) -> Iterator[Finding]:
        left = field(assignment, "left")
        if left is None or left.type != "identifier" or not same(field(assignment, "right"), call.node):
            return
        uses = [
            use
            for use in residence(site.context).uses(text(left))
            if any(b.node.id == left.id for b in residence(site.context).reaching(use))
        ]
        kinds = {_use_of_device(site.context, use) for use in uses}
        if kinds == {"device"}:
            yield self._replaced(site, call)
        elif "device" in kinds or "text" in kinds:
            shown = text(call.receiver or left)
            yield site.context.finding(
                self,
                call.node,
                f"`{text(left)}` is -1 on the CPU and is used as a device; write `{shown}.device` and compare its `.type`",
                Safety.MANUAL,
            )


def _maker(context: Context, number: Node) -> Node | None:
    """The `torch.device("cuda", x.get_device())` or `torch.device(f"cuda:{x.get_device()}")` around a number."""
    for parent in ancestors(number):
        if parent.type == "call":
            call = Call(parent)
            if context.module.qualname(call.function) == "torch.device":
                return parent if '"cuda' in text(parent) or "'cuda" in text(parent) else None
            if text(call.function) != "str" and call.method != "format":
                return None
        elif parent.type not in (
            "interpolation",
            "string",
            "argument_list",
            "binary_operator",
            "attribute",
            "keyword_argument",
        ):
            return None
    return None


def _use_of_device(context: Context, node: Node) -> str | None:
    """How a device number is used: as a device, in a text that names one, or in another way (None)."""
    parent = node.parent
    if parent is None:
        return None
    if parent.type == "keyword_argument":
        name = field(parent, "name")
        holder = parent.parent.parent if parent.parent is not None else None
        if name is not None and text(name) == "device" and holder is not None and holder.type == "call":
            return "device"
        return None
    if parent.type == "argument_list" and parent.parent is not None and parent.parent.type == "call":
        call = Call(parent.parent)
        called = context.module.qualname(call.function) or ""
        first = bool(call.positional) and same(call.positional[0].value, node)
        if called == "torch.device" or (called == "" and call.method in ("to", "cuda")):
            return "device" if first else None
        if call.method == "format" and call.receiver is not None and "cuda" in text(call.receiver):
            return "text"
        return _use_of_device(context, call.node) if text(call.function) in ("str", "int") else None
    if parent.type in ("binary_operator", "concatenated_string") and re.search(r"[\"']cuda", text(parent)):
        return "text"
    if parent.type == "interpolation" and parent.parent is not None and re.match(r"f[\"']cuda:", text(parent.parent)):
        return "text"
    return None


def _looks_like_tensor(context: Context, receiver: Node) -> bool:
    where = residence(context)
    if where.of(receiver) in (Home.CPU, Home.DEVICE, Home.PLACED, Home.SCALAR):
        return True
    if receiver.type == "attribute" and text(receiver).endswith((".weight", ".bias", ".data")):
        return True
    scope = context.module.function(receiver) or context.module.root
    return re.search(rf"(?<![\w.]){re.escape(text(receiver))}{_TENSOR}", text(scope)) is not None


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
                return (parent, text(wish)) if _is_cpu(other) and self._is_wish(site, wish) else None
            if parent.type == "if_statement":
                return self._returns_cpu(site, parent)
            if parent.type in ("block", "module", "function_definition", "boolean_operator"):
                return None
        return None

    def _is_wish(self, site: Site, node: Node) -> bool:
        node = strip_parens(node)
        if (
            node.type == "call"
            and site.module.qualname(Call(node).function) == "torch.device"
            and Call(node).positional
        ):
            node = Call(node).positional[0].value
        if node.type == "identifier":
            bindings = site.module.names.lookup(node)
            return bool(bindings) and all(
                b.kind == "parameter" or (b.value is not None and _WISH.search(text(b.value)) is not None)
                for b in bindings
            )
        return _WISH.search(text(node)) is not None and node.type in ("attribute", "subscript")

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
                if condition is None or body is None or not _contains(condition, site.leaf):
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
            return (
                name
                if self._falls_back_on_cuda(site, value, name) and self._is_asked(site, function, name, assignment)
                else None
            )
        if self._is_guarded(assignment, name):
            return None
        if target.type == "identifier":
            return name if self._is_asked(site, function, name, assignment) else self._asked_elsewhere(site, value)
        if name.startswith("self.") and function is not None and "device" in name.lower():
            return self._never_read(site, function, name.partition(".")[2])
        if re.match(r"(?:args|opts?|config|cfg|hparams|params|flags)\.\w*device\w*\Z", name, re.IGNORECASE):
            flag = name.rpartition(".")[2].replace("_", "[-_]")
            return name if re.search(rf"add_argument\([^)]*[\"']--{flag}[\"']", text(site.module.root)) else None
        return None

    def _asked_elsewhere(self, site: Site, value: Node) -> str | None:
        """`device = torch.device(args.device if torch.cuda.is_available() else "cpu")`."""
        found = re.search(
            r"\b((?:args|opts?|config|cfg|self\.args)\.device)\s+if\s+torch\.cuda\.is_available\(\)\s+else", text(value)
        )
        return found.group(1) if found is not None else None

    def _falls_back_on_cuda(self, site: Site, value: Node, name: str) -> bool:
        return (
            re.search(
                rf"\b{re.escape(name)}\s+if\s+torch\.cuda\.is_available\(\)\s+else\s+(?:torch\.device\()?[\"']cpu",
                text(value),
            )
            is not None
        )

    def _is_asked(self, site: Site, function: Node | None, name: str, assignment: Node) -> bool:
        """Whether `name` held the user's choice, unread: a parameter of the function, or what was read from the flags."""
        where = residence(site.context)
        if not re.search(r"dev", name, re.IGNORECASE):
            return False
        if function is not None and name in where.parameters(function):
            body = field(function, "body") or function
            return not self._is_used(site, name, body.start_byte, assignment.start_byte)
        target = field(assignment, "left")
        earlier = [
            b
            for b in site.module.names.bindings(name)
            if b.kind == "assignment"
            and b.node.start_byte < assignment.start_byte
            and target is not None
            and same(b.scope, site.module.scope(target))
            and b.value is not None
        ]
        value = earlier[-1].value if earlier else None
        if value is None or not _WISH.search(text(value)):
            return False
        return not self._is_used(site, name, value.end_byte, assignment.start_byte)

    def _is_used(self, site: Site, name: str, start: int, end: int) -> bool:
        return any(start <= leaf.start_byte < end for leaf in site.module.names.references(name))

    def _is_guarded(self, assignment: Node, name: str) -> bool:
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

    def _never_read(self, site: Site, function: Node, name: str) -> str | None:
        """A `device` parameter that its function never reads."""
        where = residence(site.context)
        asked = [n for n in where.parameters(function) if re.search(r"(?:\A|_)dev(?:ice)?\Z", n)]
        if len(asked) != 1:
            return None
        name = asked[0]
        body = field(function, "body")
        source = text(body) if body is not None else ""
        return name if re.search(rf"(?<![\w.]){name}\b(?!\s*=)|locals\(\)|\*\*kwargs", source) is None else None


_WISH = re.compile(
    r"\b(?:args|opts?|config|cfg|flags|hparams|params|environ|settings)\b(?:\.|\[|\()[^\n]*(?:device|gpu|dev)",
    re.IGNORECASE,
)


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


def _contains(outer: Node, inner: Node) -> bool:
    return outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte


class NumpyOfDeviceTensor(PythonRule):
    """`x.numpy()` of a tensor that was moved raises: NumPy only sees memory of the CPU.

    Instead: `x.cpu().numpy()`, which costs nothing for a tensor that is there already.
    """

    code = "ADQ14"
    name = "numpy-of-device-tensor"
    summary = "`.numpy()` of a tensor that was moved, without `.cpu()`"
    anchors = ("numpy",)
    needs = (r"\.to\(|\.cuda\(|device=", r"\n(?![^\n]*cpu\()[^\n]*\.numpy\(\)")
    examples = (
        Example(
            "an output",
            _HEAD + "net = torch.nn.Linear(2, 2).to(device)\nout = net(x.to(device))\nprint(out.detach().numpy())\n",
            _HEAD
            + "net = torch.nn.Linear(2, 2).to(device)\nout = net(x.to(device))\nprint(out.detach().cpu().numpy())\n",
        ),
    )
    leaves = (
        Leave(_HEAD + "out = x.to(device)\nprint(out.cpu().numpy())\n", "fetched first"),
        Leave(_HEAD + "out = torch.zeros(3)\nprint(out.numpy())\n", "on the CPU"),
        Leave("import numpy\nprint(x.numpy())\n", "nothing is known of it"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.method_call
        if call is None or call.receiver is None or call.keyword("force") is not None or call.positional:
            return
        where = residence(site.context)
        if not where.has_moves or not self._is_moved(where, call.receiver):
            return
        yield site.context.finding(
            self,
            call.node,
            f"NumPy cannot read the memory of a GPU; write `{text(call.receiver)[-40:]}.cpu().numpy()`",
            Safety.SAFE,
            [site.module.insert(call.receiver.end_byte, ".cpu()")],
        )

    def _is_moved(self, where: Residence, receiver: Node) -> bool:
        if where.runs_after_move(where.module.function(receiver)):
            return False  # what a module is fed is only assumed
        return where.of(receiver) is Home.DEVICE
