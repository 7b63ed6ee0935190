"""Group N, third part: extensions that are compiled with nvcc, and programs that keep the device they were made on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.catalogue.l_parallel import conditional
from anydevice.rules.guards import conditions
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, field, same, string_value, text, walk

_PACKAGE = "torch.utils.cpp_extension."
_ASKED = re.compile(r"\b(?:CUDA_HOME|ROCM_HOME|is_available|cuda|CUDA|gpu|is_built|IS_HIP)")


def _is_decided(node: Node) -> bool:
    """Whether the code around `node` asks for CUDA in some way."""
    return any(_ASKED.search(text(condition)) for condition, _ in conditions(node))


def _has_cuda_source(call: Call) -> bool:
    """Whether a call names a CUDA source file, or takes CUDA source."""
    return any(a.name == "cuda_sources" for a in call.arguments) or any(
        n.type == "string" and (string_value(n) or "").endswith((".cu", ".cuh")) for n in walk(call.argument_list)
    )


class CudaExtensionBuild(PythonRule):
    """`CUDAExtension(...)` in a setup.py raises "CUDA_HOME environment variable is not set" where there is no CUDA toolkit,
    so that the package cannot be installed there at all.

    Instead: `CppExtension` with the C++ sources there, and functions in torch operators for what the CUDA sources do.

    References: https://docs.pytorch.org/docs/stable/cpp_extension.html
    """

    code = "ADN06"
    name = "cuda-extension"
    summary = "can only be built with the CUDA toolkit"
    anchors = ("CUDAExtension",)
    examples = (
        Example(
            "C++ sources",
            "from setuptools import setup\nfrom torch.utils import cpp_extension\n"
            "setup(ext_modules=[cpp_extension.CUDAExtension('a', ['a.cpp'])])\n",
            "from setuptools import setup\nfrom torch.utils import cpp_extension\n"
            "setup(ext_modules=[(cpp_extension.CUDAExtension if cpp_extension.CUDA_HOME or cpp_extension.ROCM_HOME else "
            "cpp_extension.CppExtension)('a', ['a.cpp'])])\n",
        ),
        Example(
            "imported by name",
            "from torch.utils.cpp_extension import BuildExtension, CUDAExtension\nmodules = [CUDAExtension('a', ['a.cpp'])]\n",
            "from torch.utils.cpp_extension import BuildExtension, CUDAExtension, CUDA_HOME, CppExtension, ROCM_HOME\n"
            "modules = [(CUDAExtension if CUDA_HOME or ROCM_HOME else CppExtension)('a', ['a.cpp'])]\n",
        ),
        Example(
            "CUDA sources",
            "from torch.utils.cpp_extension import CUDAExtension\nmodules = [CUDAExtension('a', ['a.cpp', 'a_kernel.cu'])]\n",
        ),
    )
    leaves = (
        Leave(
            "from torch.utils.cpp_extension import CUDA_HOME, CUDAExtension\nif CUDA_HOME is not None:\n    m = CUDAExtension('a', ['a.cu'])\n",
            "only with the toolkit",
        ),
        Leave(
            "from torch.utils.cpp_extension import CppExtension\nm = CppExtension('a', ['a.cpp'])\n", "needs no toolkit"
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.call
        if (
            call is None
            or site.is_import
            or (site.qualname or "") != f"{_PACKAGE}CUDAExtension"
            or _is_decided(call.node)
        ):
            return
        sources = call.argument(1, "sources")
        listed = (
            sources is not None
            and sources.value.type == "list"
            and all(c.type == "string" for c in sources.value.named_children)
        )
        if not listed or _has_cuda_source(call):
            yield site.context.finding(
                self,
                call.node,
                "can only be built with the CUDA toolkit: where `CUDA_HOME` is None leave it out of `ext_modules`, or build a "
                "`CppExtension` of the C++ sources, and do in torch operators what the CUDA sources do",
                Safety.MANUAL,
            )
            return
        owner = text(call.function).rpartition("CUDAExtension")[0]
        chosen = f"({owner}CUDAExtension if {owner}CUDA_HOME or {owner}ROCM_HOME else {owner}CppExtension)"
        edits = [site.module.replace(call.function, chosen)]
        if not owner:
            edits += self._imports(site.context, ("CUDA_HOME", "CppExtension", "ROCM_HOME"))
        yield site.context.finding(
            self,
            call.node,
            f"can only be built with the CUDA toolkit; write `{chosen}(...)`",
            Safety.UNSAFE if owner or len(edits) > 1 else Safety.MANUAL,
            edits,
        )

    def _imports(self, context: Context, names: tuple[str, ...]) -> list[Edit]:
        """An edit that adds names to the import of CUDAExtension."""
        bound = {b.target: b for b in context.module.names.imports}
        held = bound.get(f"{_PACKAGE}CUDAExtension")
        missing = [name for name in names if f"{_PACKAGE}{name}" not in bound]
        statement = (
            next((a for a in ancestors(held.node) if a.type == "import_from_statement"), None)
            if held is not None
            else None
        )
        if statement is None or not missing:
            return []
        last = statement.children_by_field_name("name")[-1]
        return [context.module.insert(last.end_byte, "".join(f", {name}" for name in missing))]


class ExtensionAtImport(PythonRule):
    """`cpp_extension.load(sources=[... ".cu"])` at the top of a module compiles with nvcc when the module is imported, and
    raises where there is none.

    Instead: only where the CUDA toolkit is. Where the module has a version for the CPU (`if x.device.type == "cpu":`),
    that version then serves the other devices too; else one has to be written.
    """

    code = "ADN07"
    name = "cuda-extension-at-import"
    summary = "compiles CUDA sources when the module is imported"
    anchors = ("cpp_extension", "load_inline")
    examples = (
        Example(
            "with a version for the CPU",
            "import torch\nfrom torch.utils.cpp_extension import load\nop = load('op', sources=['op.cpp', 'op.cu'])\n\n"
            'def f(x):\n    if x.device.type == "cpu":\n        return x + 1\n    return op.f(x)\n',
            "import torch\nfrom torch.utils.cpp_extension import load\nop = load('op', sources=['op.cpp', 'op.cu']) "
            "if torch.utils.cpp_extension.CUDA_HOME or torch.utils.cpp_extension.ROCM_HOME else None\n\n"
            'def f(x):\n    if op is None or x.device.type == "cpu":\n        return x + 1\n    return op.f(x)\n',
        ),
        Example(
            "without",
            "import torch\nfrom torch.utils import cpp_extension\nop = cpp_extension.load_inline('op', cuda_sources=code)\n",
            "import torch\nfrom torch.utils import cpp_extension\nop = cpp_extension.load_inline('op', cuda_sources=code) "
            "if torch.utils.cpp_extension.CUDA_HOME or torch.utils.cpp_extension.ROCM_HOME else None\n",
        ),
        Example(
            "its functions at once",
            "import torch\nfrom torch.utils.cpp_extension import load\nf = load('op', ['op.cu']).f\n",
        ),
    )
    leaves = (
        Leave("from torch.utils.cpp_extension import load\nop = load('op', ['op.cpp'])\n", "C++ only"),
        Leave(
            "from torch.utils.cpp_extension import load\ndef f():\n    return load('op', ['op.cu'])\n",
            "when it is needed",
        ),
        Leave(
            "from torch.utils.cpp_extension import load\nif cuda:\n    op = load('op', ['op.cu'])\n", "on a condition"
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.call
        if call is None or (site.qualname or "") not in (f"{_PACKAGE}load", f"{_PACKAGE}load_inline"):
            return
        context, node = site.context, call.node
        if not context.module.at_import(node) or _is_decided(node) or not _has_cuda_source(call):
            return
        if any(a.type == "try_statement" for a in ancestors(node)):
            return
        torch = context.placement.torch_name(node)
        package = f"{torch.text}.utils.cpp_extension"
        condition = f"{package}.CUDA_HOME or {package}.ROCM_HOME"
        target = field(node.parent, "left") if node.parent is not None and node.parent.type == "assignment" else None
        name = text(target) if target is not None and target.type == "identifier" else None
        fallbacks = self._fallbacks(context, name) if name is not None else []
        yield context.finding(
            self,
            node,
            f"needs nvcc when the module is imported; compile only where `{condition}`"
            + ("" if fallbacks else ", and write a version with torch operators for other devices"),
            Safety.MANUAL if name is None else Safety.SAFE if fallbacks else Safety.UNSAFE,
            [*conditional(context, node, condition, "None"), *fallbacks, *torch.edits],
        )

    def _fallbacks(self, context: Context, name: str) -> list[Edit]:
        """Edits that send what CUDA cannot do to the version for the CPU."""
        edits = []
        for match in re.finditer(rb"\.type\s*==\s*[\"']cpu[\"']", context.module.data):
            leaf = context.module.leaf(match.start(), match.end())
            while leaf is not None and leaf.type != "comparison_operator":
                leaf = leaf.parent
            parent = leaf.parent if leaf is not None else None
            if (
                leaf is not None
                and parent is not None
                and parent.type == "if_statement"
                and same(field(parent, "condition"), leaf)
            ):
                edits.append(context.module.insert(leaf.start_byte, f"{name} is None or "))
        return edits


class TracedDevice(PythonRule):
    """`torch.jit.trace` writes the device of every tensor made in `forward` into the traced program, which then fails on
    another device.

    Instead: `torch.jit.script`, or `torch.export` and tracing again on each device; trace on the CPU what is to be
    shipped.
    """

    code = "ADN08"
    name = "traced-device"
    summary = "a traced program keeps the device that it was traced on"
    anchors = ("jit",)
    needs = (r"\btrace(?:_module)?\(",)
    examples = (
        Example("a model", "import torch\nm = torch.jit.trace(net.cuda(), torch.rand(1, 3).cuda())\n"),
        Example("a model on a device", "import torch\nx = torch.rand(1, 3).to(device)\nm = torch.jit.trace(net, x)\n"),
    )
    leaves = (
        Leave("import torch\nm = torch.jit.trace(net, torch.rand(1, 3))\n", "on the CPU"),
        Leave("import torch\nt = torch.trace(x)\n", "the sum of a diagonal"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.call
        if call is None or site.qualname not in ("torch.jit.trace", "torch.jit.trace_module"):
            return
        scope = site.module.function(call.node) or site.module.root
        before = site.module.data[scope.start_byte : call.node.end_byte]
        if not re.search(rb"\.cuda\(|\.to\(|\bdevice\s*=", before):
            return
        yield site.context.finding(
            self,
            call.node,
            "keeps the device it is traced on: use `torch.jit.script`, or trace on the CPU and check the result on "
            "each device that it is for",
            Safety.MANUAL,
        )
