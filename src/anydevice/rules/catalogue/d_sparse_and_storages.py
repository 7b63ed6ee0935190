"""Group D, fourth part: sparse tensors and storages made by the name of a CUDA type."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.legacy_argument import Kind, kind
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.rules.typed import LegacyType, Role, legacy_type, reference, use, written
from anydevice.source.calls import Call
from anydevice.source.syntax import field, text


class LegacySparseTensor(PythonRule):
    """`torch.cuda.sparse.FloatTensor(indices, values, size)` exists on CUDA only.

    Instead: `torch.sparse_coo_tensor(indices, values, size, device=device)`.

    References: https://docs.pytorch.org/docs/stable/generated/torch.sparse_coo_tensor.html
    """

    code = "ADD06"
    name = "legacy-sparse-tensor"
    summary = "a sparse tensor is made by the name of a CUDA type"
    anchors = ("cuda",)
    examples = (
        Example(
            "indices and values",
            "import torch\ns = torch.cuda.sparse.FloatTensor(i, v, torch.Size([2, 3]))\n",
            "import torch\ns = torch.sparse_coo_tensor(i, v, torch.Size([2, 3]), device=device)\n",
        ),
        Example(
            "sizes",
            "import torch\ns = torch.cuda.sparse.FloatTensor(2, 3)\n",
            "import torch\ns = torch.sparse_coo_tensor((2, 3), dtype=torch.float32, device=device)\n",
        ),
        Example("a reference", "import torch\nmakers.append(torch.cuda.sparse.FloatTensor)\n"),
    )
    leaves = (Leave("import torch\ns = torch.sparse.FloatTensor(i, v)\n", "on the CPU"),)

    def check(self, site: Site) -> Iterator[Finding]:
        found = reference(site)
        if found is None or not found[1].sparse or site.in_string:
            return
        node, type_ = found
        context, module, usage = site.context, site.module, use(site.module, found[0])
        if usage.role in (Role.CONVERTS, Role.TESTS, Role.ANNOTATES, Role.DEFAULT):
            return
        here = written(context, node)
        new = f"{here.torch}.sparse_coo_tensor"
        message = f"`{text(node)}` exists on CUDA only; write `{new}(..., device={here.device})`"
        call = Call(usage.holder) if usage.role is Role.CALLED else None
        if call is None or call.has_star or len(call.positional) not in (1, 2, 3) or context.is_scripted(node):
            yield context.finding(self, node, message, Safety.MANUAL)
            return
        kinds = [kind(module, argument.value) for argument in call.positional]
        edits = [module.replace(call.function, new)]
        if kinds == [Kind.SIZE]:
            edits.append(module.insert(call.positional[0].value.end_byte, f", {here.options(type_)}"))
        elif all(k is Kind.NUMBER for k in kinds):
            edits.append(module.insert(call.positional[0].value.start_byte, "("))
            closing = ",)" if len(kinds) == 1 else ")"
            edits.append(module.insert(call.positional[-1].value.end_byte, f"{closing}, {here.options(type_)}"))
        else:  # indices and values, whose dtype counts
            edits.append(module.insert(call.positional[-1].value.end_byte, f", device={here.device}"))
        yield context.finding(self, call.node, message, Safety.SAFE, [*edits, *here.edits])


class LegacyStorage(PythonRule):
    """`torch.cuda.FloatStorage(n)` exists on CUDA only, and typed storages are deprecated.

    Instead: `torch.empty(n, dtype=..., device=device).storage()`, or a tensor in its place. `from_buffer` makes a storage
    on the CPU: `torch.frombuffer(data, dtype=...).to(device)`.

    References: https://docs.pytorch.org/docs/stable/storage.html
    """

    code = "ADD07"
    name = "legacy-storage"
    summary = "a storage is made by the name of a CUDA type"
    anchors = ("cuda",)
    examples = (
        Example(
            "sizes",
            "import torch\ns = torch.cuda.FloatStorage(10)\n",
            "import torch\ns = torch.empty(10, dtype=torch.float32, device=device).storage()\n",
        ),
        Example("a buffer", "import torch\ns = torch.cuda.ByteStorage.from_buffer(b)\n"),
        Example("a size or data", "import torch\ns = torch.cuda.ByteStorage(b)\n"),
    )
    leaves = (Leave("import torch\ns = torch.FloatStorage(10)\n", "on the CPU"),)

    def check(self, site: Site) -> Iterator[Finding]:
        node, type_ = self._storage(site)
        if node is None or type_ is None:
            return
        context, module, usage = site.context, site.module, use(site.module, node)
        if usage.role in (Role.CONVERTS, Role.TESTS, Role.ANNOTATES, Role.DEFAULT):
            return
        here = written(context, node)
        new = f"{here.torch}.empty(..., {here.options(type_)}).storage()"
        message = f"`{text(node)}` exists on CUDA only; write `{new}`, or a tensor in its place"
        call = Call(usage.holder) if usage.role is Role.CALLED else None
        if call is None or len(call.arguments) > 1 or context.is_scripted(node):
            yield context.finding(self, node, message, Safety.MANUAL)
            return
        size = "0" if not call.arguments else text(call.arguments[0].value)
        if call.arguments and kind(module, call.arguments[0].value) is not Kind.NUMBER:
            yield context.finding(self, node, message, Safety.MANUAL)
            return
        new = f"{here.torch}.empty({size}, {here.options(type_)}).storage()"
        yield context.finding(self, call.node, message, Safety.SAFE, [module.replace(call.node, new), *here.edits])

    def _storage(self, site: Site) -> tuple[Node | None, LegacyType | None]:
        """The storage type mentioned, also with an attribute behind it: `torch.cuda.ByteStorage.from_buffer`."""
        node: Node | None = site.reference
        while node is not None and node.type == "attribute" and not site.is_import:
            type_ = legacy_type(site.module, node)
            if type_ is not None and type_.storage and type_.on_cuda:
                return node, type_
            node = field(node, "object")
        return None, None
