"""Group N, second part: kernels written for CUDA, and operators that only have such kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.catalogue.n_imports import first_of_its_kind, imported, is_optional
from anydevice.rules.guards import needs_cuda
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, field, string_value, text


class CudaOnlyKernel(PythonRule):
    """Triton kernels and CUDA source compiled at run time run on CUDA (and, for Triton, where it has a back end), and
    `import triton` fails on a Mac and on most CPU installations.

    No rewrite exists. Instead: guard the import, write the same function with torch operators, and choose between the
    two by `x.device.type`. `torch.compile` of the plain function makes a Triton kernel where that is possible.

    References: https://github.com/fla-org/flash-linear-attention/issues/113
    """

    code = "ADN01"
    name = "cuda-only-kernel"
    summary = "a kernel that needs CUDA"
    anchors = ("triton", "jit", "RawKernel", "RawModule", "SourceModule", "_compile_kernel")
    needs = ("triton|RawKernel|RawModule|SourceModule|_compile_kernel",)
    examples = (
        Example(
            "a kernel",
            "import torch\nimport triton\nimport triton.language as tl\n\n@triton.jit\ndef k(x, n: tl.constexpr):\n    pass\n",
        ),
        Example("a kernel's decorator", "from triton import jit\n@jit\ndef k(x):\n    pass\n"),
        Example("CUDA source", "import cupy\nk = cupy.RawKernel(code, 'k')\n"),
        Example("CUDA source for torch", "import torch\nk = torch.cuda._compile_kernel(code, 'k')\n"),
    )
    leaves = (
        Leave("try:\n    import triton\nexcept ImportError:\n    triton = None\n", "the import may fail"),
        Leave("import torch\n@torch.jit.script\ndef f(x):\n    return x\n", "TorchScript"),
        Leave("def f():\n    import triton\n", "imported when it is needed"),
        Leave("import torch\ntorch._inductor.config.triton.cudagraphs = True\n", "a setting"),
    )
    _COMPILERS = re.compile(r"(?:^|\.)(?:RawKernel|RawModule|SourceModule|_compile_kernel)\Z")

    def check(self, site: Site) -> Iterator[Finding]:
        context = site.context
        if site.word == "triton" and (statement := imported(site)) is not None:
            if not is_optional(statement) and first_of_its_kind(context, statement, "triton"):
                yield context.finding(
                    self,
                    statement,
                    "Triton is not to be had on a Mac, nor without a GPU: import it in `try`, keep a version "
                    "with torch operators beside each kernel, and choose by `x.device.type`",
                    Safety.MANUAL,
                )
            return
        if site.is_import:
            return
        decorator = next((a for a in ancestors(site.leaf) if a.type == "decorator"), None)
        if decorator is not None and site.word in ("triton", "jit") and site.qualname == "triton.jit":
            definition = decorator.parent
            function = field(definition, "definition") if definition is not None else None
            name = field(function, "name") if function is not None else None
            yield context.finding(
                self,
                decorator,
                f"the kernel `{text(name) if name is not None else ''}` needs Triton: write the same with torch "
                "operators for other devices, and choose by `x.device.type`",
                Safety.MANUAL,
            )
        elif (
            site.call is not None
            and self._COMPILERS.search(text(site.call.function))
            and not needs_cuda(context, site.call.node)
        ):
            yield context.finding(
                self,
                site.call.node,
                "CUDA source, compiled at run time: write the same with torch operators for other "
                "devices, and choose by `x.device.type`",
                Safety.MANUAL,
            )


class CudaDispatch(PythonRule):
    """An operator registered for `"CUDA"` alone is missing on every other device.

    Instead: an implementation in torch operators registered as `"CompositeExplicitAutograd"` (or, for `custom_op`,
    without `device_types`), and the CUDA kernel beside it.
    """

    code = "ADN04"
    name = "cuda-dispatch"
    summary = "an operator is implemented for CUDA only"
    anchors = ("custom_op", "register_kernel", "Library", "impl")
    needs = ("torch", r"[\"'](?:CUDA|cuda)[\"']")
    examples = (
        Example(
            "an operator",
            'import torch\n@torch.library.custom_op("a::b", mutates_args=(), device_types="cuda")\ndef b(x): ...\n',
        ),
        Example("a kernel", 'import torch\n@b.register_kernel("cuda")\ndef _(x): ...\n'),
        Example("a library", 'import torch\nlib = torch.library.Library("a", "IMPL", "CUDA")\n'),
        Example("an implementation", 'import torch\nlib.impl("b", f, "CUDA")\n'),
    )
    leaves = (
        Leave('import torch\n@torch.library.custom_op("a::b", mutates_args=())\ndef b(x): ...\n', "for every device"),
        Leave('import torch\nlib.impl("b", f, "CUDA")\nlib.impl("b", g, "CPU")\n', "the CPU has one too"),
        Leave('class A:\n    def impl(self):\n        self.impl("CUDA-graph")\n', "not a dispatch key"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.call or site.method_call
        if call is None or b"torch" not in site.module.data:
            return
        if not any(self._names_cuda(a.value) for a in call.arguments):
            return
        operator = text(call.arguments[0].value) if call.arguments else ""
        others = rb"CPU|CompositeExplicit|CompositeImplicit|\"cpu\"|'cpu'"
        if re.search(others, site.module.data) and site.word != "custom_op":
            return
        yield site.context.finding(
            self,
            call.node,
            f"{operator if site.word == 'custom_op' else 'the operator'} is implemented for CUDA only: register one made of "
            'torch operators for "CompositeExplicitAutograd" (`custom_op`: without `device_types`) beside it',
            Safety.MANUAL,
        )

    def _names_cuda(self, value: Node) -> bool:
        values = value.named_children if value.type in ("list", "tuple") else [value]
        kinds = [string_value(v) for v in values]
        return bool(kinds) and all(kind in ("CUDA", "cuda") for kind in kinds)


class RawPointer(PythonRule):
    """`x.data_ptr()` given to a library of one's own or to CUDA is an address in that device's memory; for a tensor on
    another device, the library reads what is not there.

    Instead: check `x.device.type` before, and have a way in torch operators for other devices.
    """

    code = "ADN05"
    name = "raw-pointer"
    summary = "hands the address of a tensor to compiled code"
    anchors = ("data_ptr",)
    needs = ("torch", r"ctypes|cupy|pycuda|tensorrt|cffi|cuda")
    examples = (
        Example("to a C library", "import ctypes\nimport torch\nlib.scale(ctypes.c_void_p(x.data_ptr()), n)\n"),
        Example("to a kernel", "import cupy\nimport torch\nk(grid, block, [x.data_ptr(), y.data_ptr()])\n"),
    )
    leaves = (
        Leave(
            "import torch\nseen = {p.data_ptr() for p in m.parameters()}\nassert x.data_ptr() == y.data_ptr()\n",
            "compared only",
        ),
        Leave("import ctypes\nimport torch\nif x.data_ptr() == y.data_ptr():\n    pass\n", "compared only"),
    )
    _FOREIGN = re.compile(
        rb"(?m)^\s*(?:import|from)\s+(?:ctypes|cupy|pycuda|pynvrtc|tensorrt|cuda|cffi|torch\.utils\.ffi)\b"
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.method_call
        if call is None or needs_cuda(site.context, call.node) or not self._FOREIGN.search(site.module.data):
            return
        current = call.node
        for parent in ancestors(call.node):
            if parent.type not in ("argument_list", "list", "tuple", "keyword_argument"):
                break
            current = parent
        if (
            current.type != "argument_list"
            or current.parent is None
            or text(Call(current.parent).function) in ("print", "id", "hash")
        ):
            return
        yield site.context.finding(
            self,
            call.node,
            f"hands the address of `{text(call.receiver or call.node)}` to compiled code: check its `device.type` before, "
            "and have a way in torch operators for other devices",
            Safety.MANUAL,
        )
