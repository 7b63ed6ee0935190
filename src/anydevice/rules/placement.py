"""Where the device of a file comes from: the definition it has, or the one that a fix adds after the imports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from tree_sitter import Node

from anydevice.finding import Edit
from anydevice.rules.choice import device_value
from anydevice.rules.facts import Facts
from anydevice.rules.target import Target
from anydevice.source.module import Module
from anydevice.source.names import Binding
from anydevice.source.syntax import ancestors, field, first_named, statement, string_value, text

_IMPORTS = frozenset({"import_statement", "import_from_statement", "future_import_statement"})
_NAMES = ("device", "DEVICE", "accelerator_device", "_device")
_FUNCTION_NAMES = ("get_device", "pick_device", "_get_device")
_INDEXED_NAMES = ("device_for", "indexed_device", "_device_for")


@dataclass(frozen=True)
class Expression:
    """Source text to write, and the edits without which it would not mean anything."""

    text: str
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True)
class Device:
    """The device as it can be written at one place.

    `expr` may be given to any torch function; `type` is an expression for the device type, a `str`.
    """

    expr: str
    type: str
    edits: tuple[Edit, ...] = ()


class Placement:
    """Decides, for one file, which expression stands for the chosen device."""

    def __init__(self, module: Module, target: Target, facts: Facts) -> None:
        self.module = module
        self.target = target
        self.facts = facts

    # -- what rules ask ----------------------------------------------------------------------------------------

    def device(self, node: Node) -> Device:
        """The device, as an expression that is valid at `node`."""
        existing = self._existing(node)
        if existing is not None:
            name, is_string = existing
            return Device(name, f"{self.torch}.device({name}).type" if is_string else f"{name}.type")
        return self._added

    def device_object(self, node: Node) -> Device:
        """Like `device`, but `expr` is a `torch.device` for sure."""
        device = self.device(node)
        existing = self._existing(node)
        if existing is not None and existing[1]:
            return Device(f"{self.torch}.device({device.expr})", device.type, device.edits)
        return device

    def indexed(self, node: Node, index: str) -> Expression:
        """An expression for accelerator number `index`; the only device where devices cannot be told apart."""
        device = self.device_object(node)
        if not self._is_module_level(device):  # a local device cannot be used by a function of the module
            device = self._added
        name, definition = self._indexed(device)
        return Expression(f"{name}({index})", definition if definition else device.edits)

    def function(self, node: Node, names: tuple[str, ...], definition: Callable[[str, str, str], str]) -> Expression:
        """The name of a module-level function that a fix adds once: `definition(name, torch, device)` is its text."""
        device = self.device(node)
        if not self._is_module_level(device):  # a local device cannot be used by a function of the module
            device = self._added
        name, edits = self._function(device, names, lambda name: definition(name, self.torch, device.expr))
        return Expression(name, edits or device.edits)

    def available(self, node: Node) -> Expression:
        """A condition: there is an accelerator."""
        if self.target.has_accelerator:
            name, edits = self._torch_at(node)
            return Expression(f"{name}.accelerator.is_available()", edits)
        device = self.device(node)
        return Expression(f'{device.type} != "cpu"', device.edits)

    def torch_name(self, node: Node) -> Expression:
        """The name of the torch module at `node`, with the import that it may need."""
        name, edits = self._torch_at(node)
        return Expression(name, edits)

    def insertion(self, definition: str) -> Edit:
        """A definition of the module, inserted after the imports."""
        return self._insertion(definition)

    @cached_property
    def torch(self) -> str:
        """What the file calls torch at module level."""
        binding = self._torch_binding
        return text(binding.node) if binding is not None else "torch"

    # -- the definition that a file has ------------------------------------------------------------------------

    def _existing(self, node: Node) -> tuple[str, bool] | None:
        """(name, is a string) of a device that is defined for `node` already."""
        for binding in self._definitions:
            if self._reaches(binding, node):
                assert binding.value is not None
                choice = device_value(self.module, binding.value)
                return text(binding.node), choice is not None and choice.is_string
        return self._own_function

    @cached_property
    def _definitions(self) -> tuple[Binding, ...]:
        """Names bound, everywhere in their scope, to a choice of device; nearest to the end of the file first."""
        found = []
        seen: set[str] = set()
        for name in self._assigned_names:
            if name in seen:
                continue
            seen.add(name)
            by_scope: dict[int, list[Binding]] = {}
            for binding in self.module.names.bindings(name):
                by_scope.setdefault(binding.scope.id, []).append(binding)
            for bindings in by_scope.values():
                if all(self._defines_device(binding, len(bindings)) for binding in bindings):
                    found.append(bindings[-1] if len(bindings) == 1 else self._chain(bindings))
        return tuple(sorted((b for b in found if b is not None), key=lambda b: -b.node.start_byte))

    @property
    def _assigned_names(self) -> list[str]:
        """Names that look like devices; a cheap list to look at first."""
        import re

        pattern = rb"(?m)^[ \t]*(\w+)[ \t]*=[^=\n]*(?:\bcuda\b|is_available|current_accelerator|\bdevice\()"
        return [match.group(1).decode() for match in re.finditer(pattern, self.module.data)]

    def _defines_device(self, binding: Binding, count: int) -> bool:
        if binding.kind != "assignment" or binding.value is None:
            return False
        choice = device_value(self.module, binding.value)
        if choice is None:
            value = string_value(binding.value) or text(binding.value)
            return count > 1 and ("cpu" in value or "mps" in value or "xpu" in value)
        return not choice.indexed or (choice.node.type == "call" and not self.facts.sets_device)

    def _chain(self, bindings: list[Binding]) -> Binding | None:
        """An if/elif/else that binds one name in each branch counts as one definition."""
        last = bindings[-1]
        ifs = {next((a.id for a in ancestors(b.node) if a.type == "if_statement"), None) for b in bindings}
        if len(ifs) != 1 or None in ifs:
            return None
        statement_ = next(a for a in ancestors(last.node) if a.type == "if_statement")
        if not any(child.type == "else_clause" for child in statement_.children):
            return None
        condition = field(statement_, "condition")
        return last if condition is not None and "is_available" in text(condition) else None

    def _reaches(self, binding: Binding, node: Node) -> bool:
        """Whether `binding` has always happened when `node` runs."""
        owner = statement(binding.node)
        if owner.parent is not None and owner.parent.type == "block" and owner.parent.parent is not None:
            outer = owner.parent.parent
            if outer.type in ("else_clause", "elif_clause", "if_statement") and self._is_chain_member(binding):
                outer_if = outer if outer.type == "if_statement" else outer.parent
                owner = outer_if if outer_if is not None else owner
        scope = binding.scope
        inside = any(a.id == scope.id for a in ancestors(node))
        if not inside or owner.parent is None:
            return False
        if scope.type == "class_definition":
            return False
        # a shadowing binding between the two
        name = text(binding.node)
        for parent in ancestors(node):
            if parent.id == scope.id:
                break
            if any(b.scope.id == parent.id for b in self.module.names.bindings(name)):
                return False
        holder = owner.parent
        in_block = any(a.id == holder.id for a in ancestors(node))
        later = owner.end_byte <= node.start_byte
        if scope.type == "module":
            if holder.type != "module":
                return in_block and later
            return later or not (self.module.at_import(node) or self.module.may_run_before(node, owner))
        return in_block and later

    def _is_chain_member(self, binding: Binding) -> bool:
        return len([b for b in self.module.names.bindings(text(binding.node)) if b.scope.id == binding.scope.id]) > 1

    @cached_property
    def _own_function(self) -> tuple[str, bool] | None:
        """The function that an earlier fix added."""
        for name in _FUNCTION_NAMES:
            for binding in self.module.names.bindings(name):
                if binding.kind == "function" and binding.value is not None and binding.scope.type == "module":
                    body = text(binding.value)
                    if body.strip() == self._function_text(name).strip():
                        return f"{name}()", False
        return None

    def _is_module_level(self, device: Device) -> bool:
        if device.edits or device.expr.endswith("()"):
            return True
        return any(
            b.scope.type == "module" and (self.module.is_top_level(statement(b.node)) or self._is_chain_member(b))
            for b in self._definitions
            if text(b.node) == device.expr
        )

    # -- the definition that a fix adds ------------------------------------------------------------------------

    @cached_property
    def _added(self) -> Device:
        if self.facts.must_ask_late:
            name = self._free(_FUNCTION_NAMES)
            edit = self._insertion(self._function_text(name))
            return Device(f"{name}()", f"{name}().type", (edit,))
        name = self._free(_NAMES)
        return Device(name, f"{name}.type", (self._insertion(self._constant_text(name)),))

    def _free(self, candidates: tuple[str, ...]) -> str:
        """A name that the file does not use, nor hands to those that import all of its names."""
        if self._is_star_imported:
            candidates = tuple(name for name in candidates if name.startswith("_")) or _private(candidates)
        return next((name for name in candidates if self.module.names.is_free(name)), f"_anydevice_{candidates[0]}")

    @cached_property
    def _is_star_imported(self) -> bool:
        path = self.module.document.path
        name = path.parent.name if path.stem == "__init__" else path.stem
        return name in self.facts.star_imported and not self.module.names.bindings("__all__")

    def _constant_text(self, name: str) -> str:
        torch = self.torch
        if self.target.has_accelerator:
            chosen = f"{torch}.accelerator.current_accelerator() if {torch}.accelerator.is_available()"
            return f'{name} = {chosen} else {torch}.device("cpu")\n'
        return "\n".join(self._chain_lines(f"{name} = ", "")) + "\n"

    def _function_text(self, name: str) -> str:
        torch, unit = self.torch, self.module.indent_unit
        if self.target.has_accelerator:
            accelerator = f"{torch}.accelerator"
            return (
                f"def {name}():\n{unit}return {accelerator}.current_accelerator() "
                f'if {accelerator}.is_available() else {torch}.device("cpu")\n'
            )
        return f"def {name}():\n" + "\n".join(self._chain_lines("return ", unit)) + "\n"

    def _chain_lines(self, lead: str, indent: str) -> list[str]:
        """The choice spelled out, for a torch without torch.accelerator."""
        torch, unit = self.torch, self.module.indent_unit
        conditions = (
            ("cuda", f"{torch}.cuda.is_available()"),
            ("xpu", f'hasattr({torch}, "xpu") and {torch}.xpu.is_available()'),
            ("mps", f'hasattr({torch}.backends, "mps") and {torch}.backends.mps.is_available()'),
        )
        lines = []
        for number, (kind, condition) in enumerate(conditions):
            lines += [
                f"{indent}{'elif' if number else 'if'} {condition}:",
                f'{indent}{unit}{lead}{torch}.device("{kind}")',
            ]
        return [*lines, f"{indent}else:", f'{indent}{unit}{lead}{torch}.device("cpu")']

    def _indexed(self, device: Device) -> tuple[str, tuple[Edit, ...]]:
        unit = self.module.indent_unit

        def definition(name: str) -> str:
            expr = device.expr
            return (
                f"def {name}(index):\n"
                f'{unit}if index is None or {expr}.type in ("cpu", "mps"):\n'
                f"{unit}{unit}return {expr}\n"
                f"{unit}if str(index).isdigit():\n"  # command lines and the environment give numbers as text
                f"{unit}{unit}return {self.torch}.device({expr}.type, int(index))\n"
                f"{unit}return {self.torch}.device(index)\n"
            )

        return self._function(device, _INDEXED_NAMES, definition)

    def _function(
        self, device: Device, names: tuple[str, ...], definition: Callable[[str], str]
    ) -> tuple[str, tuple[Edit, ...]]:
        """The name of a function of the module that uses `device`, and the edits that define it where it is missing."""
        for name in (*names, *_private(names)):
            for binding in self.module.names.bindings(name):
                if (
                    binding.kind == "function"
                    and binding.value is not None
                    and text(binding.value).strip() == definition(name).strip()
                ):
                    return name, ()
        name = self._free(names)
        edits = []
        lead = ""
        if device.edits:
            # one insertion for both, so that the helper never comes without the device that it uses
            lead = (
                self._constant_text(device.expr)
                if not device.expr.endswith("()")
                else self._function_text(device.expr[:-2])
            )
            lead += "\n\n"
            edits.append(self._insertion(lead + definition(name)))
        else:
            edits.append(self._insertion(definition(name), after=self._definition_end(device)))
        return name, tuple(edits)

    def _definition_end(self, device: Device) -> int | None:
        name = device.expr.removesuffix("()")
        for binding in self.module.names.bindings(name):
            if binding.scope.type == "module":
                top = next((a for a in [binding.node, *ancestors(binding.node)] if self.module.is_top_level(a)), None)
                if top is not None:
                    return self.module.line_end(top.end_byte - 1)
        return None

    def _insertion(self, definition: str, after: int | None = None) -> Edit:
        """`definition` as an insertion after the imports, with `import torch` where that is missing."""
        offset = self._import_end if after is None else max(after, self._import_end)
        data = self.module.data
        if self._torch_binding is None:
            before, definition = "import torch\n\n", definition
        else:
            before = ""
        blank = "\n\n" if definition.startswith(("def ", "class ")) else "\n"
        lead = "" if not offset else (blank if data[offset - 1 : offset] == b"\n" else "\n" + blank)
        if before:
            lead = ("" if data[offset - 1 : offset] == b"\n" or not offset else "\n") + before + lead[1:]
        rest = data[offset:].replace(b"\r\n", b"\n")
        blank = "\n\n" if "\ndef " in definition else blank  # a constant, then functions that use it
        missing = len(blank) - (len(rest) - len(rest.lstrip(b"\n"))) if rest.strip() else 0
        return self.module.insert(offset, lead + definition + "\n" * missing)

    # -- imports -----------------------------------------------------------------------------------------------

    @cached_property
    def _torch_binding(self) -> Binding | None:
        """The module-level import of torch itself."""
        candidates = [b for b in self.module.names.imports if b.target == "torch" and b.scope.type == "module"]
        names = self.module.names
        clean = [b for b in candidates if all(other.kind == "import" for other in names.bindings(text(b.node)))]
        return next(iter(clean or candidates), None)

    def _torch_at(self, node: Node) -> tuple[str, tuple[Edit, ...]]:
        if self._torch_binding is not None:
            return text(self._torch_binding.node), ()
        for binding in self.module.names.imports:
            if binding.target == "torch" and any(a.id == binding.scope.id for a in ancestors(node)):
                return text(binding.node), ()
        offset = self._import_end
        lead = "" if not offset or self.module.data[offset - 1 : offset] == b"\n" else "\n"
        return "torch", (self.module.insert(offset, f"{lead}import torch\n"),)

    @cached_property
    def _import_end(self) -> int:
        """The offset after the first run of imports (and of set-up between them) at the top of the file."""
        end = 0
        torch_end = 0
        binding = self._torch_binding
        for child in self.module.root.named_children:
            if child.type in _IMPORTS:
                end = self.module.line_end(child.end_byte - 1)
            elif child.type == "comment" or _is_setup(child):
                end = end or 0
            elif child.type in ("try_statement", "if_statement") and _only_imports(child):
                end = self.module.line_end(child.end_byte - 1)
            else:
                break
            if binding is not None and child.start_byte <= binding.node.start_byte < child.end_byte:
                torch_end = end
        if binding is not None and not torch_end:  # torch is imported further down
            top = next(a for a in ancestors(binding.node) if self.module.is_top_level(a))
            end = self.module.line_end(top.end_byte - 1)
        if not end:
            end = self._preamble_end
        return end

    @cached_property
    def _preamble_end(self) -> int:
        """The offset after shebang, coding line, comments and docstring, where an import may stand."""
        end = 0
        for child in self.module.root.children:
            is_doc = (
                child.type == "expression_statement"
                and child.named_child_count == 1
                and ((c := first_named(child)) is not None and c.type == "string")
            )
            if (child.type == "comment" and child.start_point[0] < 2) or is_doc:
                end = self.module.line_end(child.end_byte - 1)
            elif child.type != "comment":
                break
        return end


def _private(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"_{name}" for name in names)


def _is_setup(node: Node) -> bool:
    """A statement that people put between imports: docstrings, sys.path, os.environ, warnings, matplotlib.use."""
    if node.type != "expression_statement" or node.named_child_count != 1:
        return False
    inner = first_named(node)
    if inner is None:
        return False
    if inner.type in ("string", "call"):
        return True
    return inner.type == "assignment" and text(inner).startswith(("os.environ", "sys.", "__"))


def _only_imports(node: Node) -> bool:
    """A try or if statement whose purpose is an import."""
    allowed = {
        "import_statement",
        "import_from_statement",
        "pass_statement",
        "raise_statement",
        "expression_statement",
        "comment",
    }
    blocks = [child for child in _descend(node) if child.type == "block"]
    has_import = any(s.type in _IMPORTS for block in blocks for s in block.named_children)
    return has_import and all(s.type in allowed for block in blocks for s in block.named_children)


def _descend(node: Node) -> list[Node]:
    found = []
    for child in node.named_children:
        found.append(child)
        if child.type != "block":
            found += _descend(child)
    return found
