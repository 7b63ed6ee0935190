"""What a rule is handed: one occurrence of an anchor in a parsed file, and the means to report and edit there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.facts import Facts
from anydevice.rules.placement import Device, Expression, Placement
from anydevice.rules.rule import Rule
from anydevice.rules.target import Target
from anydevice.source.calls import Argument, Call
from anydevice.source.module import Module
from anydevice.source.syntax import ancestors, field, first_named, same, statement, string_value, strip_parens, text

_SCRIPT = re.compile(r"@(?:\w+\.)*(?:jit\.)?(?:script|script_method)\b")


class Context:
    """One file under examination."""

    def __init__(self, module: Module, target: Target, facts: Facts) -> None:
        self.module = module
        self.target = target
        self.facts = facts
        self.path = module.document.name
        self.placement = Placement(module, target, facts)

    # -- questions ---------------------------------------------------------------------------------------------

    def device(self, node: Node) -> Device:
        """See `Placement.device`."""
        return self.placement.device(node)

    def is_scripted(self, node: Node) -> bool:
        """Whether `node` is compiled by TorchScript, which knows no global torch.device."""
        for parent in ancestors(node):
            if parent.type == "decorated_definition" and any(
                child.type == "decorator" and _SCRIPT.match(text(child)) for child in parent.named_children
            ):
                return True
        return False

    def is_module_class(self, class_: Node | None, depth: int = 0) -> bool:
        """Whether a class is an nn.Module, by its bases or, when those come from elsewhere, by its looks."""
        if class_ is None or depth > 8:
            return False
        bases = field(class_, "superclasses")
        for base in bases.named_children if bases is not None else []:
            name = self.module.qualname(base) or text(base)
            if name.endswith("DataModule"):
                return False
            if name.startswith("torch.nn.") or name.endswith(("Module", "PreTrainedModel", "ModelMixin")):
                return True
            if base.type == "identifier":
                for binding in self.module.names.lookup(base):
                    other = binding.value if binding.kind == "class" else None
                    if other is not None and not same(other, class_) and self.is_module_class(other, depth + 1):
                        return True
        if bases is None or not bases.named_child_count:
            return False
        body = text(class_)
        return "def forward(" in body and "super" in body

    # -- reporting ---------------------------------------------------------------------------------------------

    def finding(
        self, rule: Rule, node: Node, message: str, safety: Safety, edits: tuple[Edit, ...] | list[Edit] = ()
    ) -> Finding:
        """A finding at `node`. Edits of a manual finding are dropped."""
        span = self.module.span(node)
        kept = () if safety is Safety.MANUAL else tuple(dict.fromkeys(edits))
        return Finding(
            rule.code, rule.name, self.path, span, message, safety, kept, self.module.document.line_text(span).strip()
        )

    def guarded(self, call: Node, replacement: str, condition: Expression, otherwise: str = "None") -> list[Edit]:
        """Edits that make `call` into `replacement`, evaluated only under `condition`.

        A call that is a statement gets an `if` of its own; one whose value is used becomes a conditional expression
        that gives `otherwise` where the condition does not hold.
        """
        module = self.module
        owner = statement(call)
        alone = (
            owner.type == "expression_statement"
            and same(first_named(owner), call)
            and owner.named_child_count == 1
            and module.starts_line(owner)
            and not module.data[owner.end_byte : module.line_end(owner.end_byte)].lstrip(b" \t").startswith(b";")
        )
        if alone:
            inner = module.indent(owner) + module.indent_unit
            return [module.replace(call, f"if {condition.text}:\n{inner}{replacement}"), *condition.edits]
        conditional = f"{replacement} if {condition.text} else {otherwise}"
        parent = call.parent
        free = parent is not None and parent.type in (
            "assignment",
            "return_statement",
            "parenthesized_expression",
            "argument_list",
            "keyword_argument",
            "expression_statement",
            "interpolation",
        )
        return [module.replace(call, conditional if free else f"({conditional})"), *condition.edits]


@dataclass(frozen=True)
class Site:
    """One occurrence of an anchor.

    `leaf` is the identifier, or the string literal for a text anchor; `word` the anchor that was met (for a use of an
    import alias: the anchor that the alias stands for).
    """

    context: Context
    leaf: Node
    word: str
    in_string: bool = False

    @property
    def module(self) -> Module:
        """The parsed file."""
        return self.context.module

    @cached_property
    def reference(self) -> Node:
        """The whole dotted expression around the leaf: `torch.cuda.amp.autocast`, `x.cuda`."""
        node = self.leaf
        parent = node.parent
        if parent is not None and parent.type == "attribute" and same(field(parent, "attribute"), node):
            node, parent = parent, parent.parent
        while parent is not None and parent.type == "attribute" and same(field(parent, "object"), node):
            node, parent = parent, parent.parent
        return node

    @cached_property
    def qualname(self) -> str | None:
        """What the reference stands for, aliases resolved; None for the name of a definition or of an argument."""
        parent = self.reference.parent
        named = parent is not None and parent.type in ("function_definition", "class_definition", "keyword_argument")
        if named and parent is not None and same(field(parent, "name"), self.reference):
            return None
        return self.module.qualname(self.reference)

    @cached_property
    def call(self) -> Call | None:
        """The call of the reference, when it is called."""
        parent = self.reference.parent
        if parent is not None and parent.type == "call" and same(field(parent, "function"), self.reference):
            return Call(parent)
        return None

    @cached_property
    def method_call(self) -> Call | None:
        """The call `x.leaf(...)`, whatever x is, when the leaf is a method's name."""
        attribute = self.leaf.parent
        if attribute is None or attribute.type != "attribute" or not same(field(attribute, "attribute"), self.leaf):
            return None
        call = attribute.parent
        if call is not None and call.type == "call" and same(field(call, "function"), attribute):
            return Call(call)
        return None

    @cached_property
    def is_import(self) -> bool:
        """Whether the leaf stands in an import statement."""
        return any(a.type in ("import_statement", "import_from_statement") for a in ancestors(self.leaf))

    @cached_property
    def keyword(self) -> Argument | None:
        """The argument `leaf=value` of a call, when the leaf is its name."""
        parent = self.leaf.parent
        if parent is not None and parent.type == "keyword_argument" and same(field(parent, "name"), self.leaf):
            value = field(parent, "value")
            return Argument(parent, value, text(self.leaf)) if value is not None else None
        return None


__all__ = ["Argument", "Call", "Context", "Device", "Expression", "Site", "string_value", "strip_parens"]
