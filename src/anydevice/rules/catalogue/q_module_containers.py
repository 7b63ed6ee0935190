"""Group Q, layers in containers that `module.to(device)` does not look into."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.classes import Attribute, attributes
from anydevice.rules.contents import CONTAINERS, added, elements
from anydevice.rules.home import Home
from anydevice.rules.residence import Residence, residence
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.rules.tensor_words import SCRIPT
from anydevice.source.calls import Call
from anydevice.source.module import Module
from anydevice.source.syntax import field, same, strip_parens, text

_HEAD = "import torch\nfrom torch import nn\n"


class ModulesInPlainContainer(PythonRule):
    """Layers kept in a Python list or dict are not submodules: not moved, not trained, not saved.

    Instead: `nn.ModuleList` or `nn.ModuleDict`, which are used in the same way. The names in `state_dict()` and the set of
    `parameters()` change: they were missing before. A list that is wrapped later (`nn.Sequential(*self.blocks)`) is fine.

    References: https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html
    """

    code = "ADQ03"
    name = "modules-in-plain-container"
    summary = "layers in a plain list or dict do not move with their module"
    anchors = ("Module", "LightningModule", "PreTrainedModel", "Linear", "Conv1d", "Conv2d")
    needs = (
        r"nn\.",
        (
            r"append\(\s*(?:nn\.)?[A-Z]\w*\(",
            r"self\.\w+(?:: [^=\n]+)? = [\[({]\n?[^\n]*(?:nn\.|deepcopy\(|\b[A-Z]\w+\()",
            r"\] = nn\.",
            r"self\.\w+ = \(\w+\([^\n]*\), *\w+\(",
            r"\n[ \t]+\w+ = [\[{]\n?[^\n]*nn\.",
            SCRIPT,
        ),
    )
    examples = (
        Example(
            "appended",
            _HEAD
            + "class Tower(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.steps = []\n"
            "        for _ in range(3):\n            self.steps.append(nn.Linear(4, 4))\n",
            _HEAD
            + "class Tower(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.steps = nn.ModuleList()\n"
            "        for _ in range(3):\n            self.steps.append(nn.Linear(4, 4))\n",
        ),
        Example(
            "a comprehension",
            _HEAD + "class Tower(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.steps = [nn.Linear(4, 4) for _ in range(3)]\n",
            _HEAD + "class Tower(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.steps = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])\n",
        ),
        Example(
            "a dict",
            _HEAD + "class Heads(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            '        self.heads = {"a": nn.Linear(4, 1), "b": nn.Linear(4, 2)}\n',
            _HEAD + "class Heads(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            '        self.heads = nn.ModuleDict({"a": nn.Linear(4, 1), "b": nn.Linear(4, 2)})\n',
        ),
        Example(
            "filled by key",
            _HEAD
            + "class Heads(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.heads = {}\n"
            "        for size in (1, 2):\n            self.heads[size] = nn.Linear(4, size)\n",
        ),
        Example(
            "a local list",
            _HEAD + "class Tower(nn.Module):\n    def __init__(self):\n        super().__init__()\n        steps = []\n"
            "        steps.append(nn.Linear(4, 4))\n        self.steps = steps\n",
            _HEAD + "class Tower(nn.Module):\n    def __init__(self):\n        super().__init__()\n        steps = []\n"
            "        steps.append(nn.Linear(4, 4))\n        self.steps = nn.ModuleList(steps)\n",
        ),
    )
    leaves = (
        Leave(
            _HEAD + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.blocks = []\n        self.blocks.append(nn.Linear(2, 2))\n        self.net = nn.Sequential(*self.blocks)\n",
            "wrapped later",
        ),
        Leave(
            _HEAD + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.a = nn.Linear(2, 2)\n        self.all = [self.a]\n",
            "registered under a name of its own",
        ),
        Leave(
            _HEAD + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.acts = [nn.ReLU(), nn.Tanh()]\n        layers = [nn.Linear(2, 2)]\n        self.net = nn.Sequential(*layers)\n",
            "without tensors of their own",
        ),
        Leave(
            _HEAD + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.m = []\n"
            "        for i in range(2):\n            layer = nn.Linear(2, 2)\n            self.add_module(str(i), layer)\n"
            "            self.m.append(layer)\n",
            "added by name",
        ),
        Leave(_HEAD + "class Pool:\n    def __init__(self):\n        self.nets = [nn.Linear(2, 2)]\n", "no module"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        yield from _contained(site.context, self)

    def report(self, context: Context, attribute: Attribute) -> Finding:
        """The finding at a container."""
        module = context.module
        value = strip_parens(attribute.value)
        nn = _name_of_nn(module)
        kind = "ModuleDict" if "dict" in value.type or text(value).startswith("dict(") else "ModuleList"
        message = (
            f"`self.{attribute.name}` is a plain container, so its layers are neither moved nor trained nor saved; "
            f"write `{nn or 'nn'}.{kind}(...)`"
        )
        written = self._written(context, attribute, value, f"{nn}.{kind}") if nn is not None else None
        if written is None:
            return context.finding(self, attribute.statement, message, Safety.MANUAL)
        return context.finding(self, attribute.statement, message, Safety.UNSAFE, [module.replace(value, written)])

    def _written(self, context: Context, attribute: Attribute, value: Node, wrapper: str) -> str | None:
        """The container as a module, or None where a person must see to the keys or the nesting."""
        source = text(value)
        stored = re.search(rf"self\.{attribute.name}\[[^\]]*\]\s*=", text(attribute.class_))
        if stored is not None or len(list(residence(context).attribute_values(attribute.class_, attribute.name))) > 1:
            return None
        if source in ("[]", "list()", "{}", "dict()"):
            return f"{wrapper}()"
        if value.type in ("list", "tuple", "dictionary"):
            children = [c for c in value.named_children if c.type != "comment"]
            if value.type == "dictionary" and not all(
                c.type == "pair" and (key := field(c, "key")) is not None and key.type == "string" for c in children
            ):
                return None
            if any(c.type in CONTAINERS for c in children):
                return None
            return f"{wrapper}({source})"
        return f"{wrapper}({source})" if value.type in ("list_comprehension", "identifier") else None


@lru_cache(maxsize=2)
def _contained(context: Context, rule: ModulesInPlainContainer) -> tuple[Finding, ...]:
    where = residence(context)
    return tuple(
        rule.report(context, attribute)
        for attribute in attributes(context)
        if _is_container(where, attribute) and _holds_layers(where, attribute) and not _is_attached(where, attribute)
    )


def _is_container(where: Residence, attribute: Attribute) -> bool:
    value = strip_parens(attribute.value)
    if value.type == "identifier":
        bindings = where.reaching(value)
        return (
            len(bindings) == 1
            and bindings[0].value is not None
            and bindings[0].value.type in ("list", "list_comprehension")
        )
    if value.type == "binary_operator":
        left = field(value, "left")
        return left is not None and left.type == "list"
    return value.type in CONTAINERS - {"set"} or text(value) in ("list()", "dict()")


def _holds_layers(where: Residence, attribute: Attribute) -> bool:
    """Whether some element is a module with tensors of its own that is not an attribute of `self` already."""
    value = strip_parens(attribute.value)
    if value.type == "identifier":
        (binding,) = where.reaching(value)
        local = binding.value
        return (local is not None and any(_is_layer(where, e) for e in elements(local))) or any(
            _is_layer(where, layer) for use in where.uses(text(value)) for layer in added(use)
        )
    return any(_is_layer(where, element) for element in elements(value)) or any(
        _is_layer(where, layer)
        for use in where.attribute_uses(attribute.class_, attribute.name)
        for layer in added(use)
    )


def _is_layer(where: Residence, node: Node) -> bool:
    node = strip_parens(node)
    if node.type == "attribute":
        return False
    if node.type in ("list", "tuple"):
        return any(_is_layer(where, child) for child in node.named_children)
    if re.fullmatch(r"(?:copy\.)?deepcopy\(\w*(?:layer|module|block|head|net)\)", text(node)):
        return True
    return where.of(node) in (Home.MODULE, Home.MOVED_MODULE)


def _is_attached(where: Residence, attribute: Attribute) -> bool:
    """Whether the layers become submodules in another way: wrapped, added by name, or handed to a constructor."""
    if re.search(r"\badd_module\(|\bsetattr\(\s*self\b|\bregister_module\(", text(attribute.class_)):
        return True
    value = strip_parens(attribute.value)
    uses = list(where.attribute_uses(attribute.class_, attribute.name))
    if value.type == "identifier":
        uses += [use for use in where.uses(text(value)) if use.id != value.id]
    return any(_is_handed_on(use) for use in uses)


def _is_handed_on(use: Node) -> bool:
    node, parent = use, use.parent
    while parent is not None and parent.type in (
        "list_splat",
        "dictionary_splat",
        "list",
        "binary_operator",
        "keyword_argument",
        "subscript",
    ):
        if parent.type == "subscript" and not same(field(parent, "value"), node):
            return False
        node, parent = parent, parent.parent
    if parent is None or parent.type != "argument_list" or parent.parent is None or parent.parent.type != "call":
        return False
    function = text(Call(parent.parent).function)
    return function.rsplit(".", 1)[-1][:1].isupper() or function.startswith("super")


def _name_of_nn(module: Module) -> str | None:
    """What the file calls torch.nn."""
    for binding in module.names.imports:
        if binding.target == "torch.nn":
            return text(binding.node)
    if any(b.target == "torch" for b in module.names.imports):
        return "torch.nn"
    return None
