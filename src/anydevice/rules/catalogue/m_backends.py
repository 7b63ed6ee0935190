"""Group M: flags of back ends and optimizers. `torch.backends.cudnn.*` and most of `torch.backends.cuda.*` do no harm
anywhere (checked on a torch without CUDA) and are left alone; here are those that raise."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version
from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.guards import needs_cuda
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, field, first_named, statement, string_value, text

_FUSED_EVERYWHERE = Version(
    "2.6"
)  # fused=True on the CPU, mps and xpu: torch/optim/_functional and the wheels 2.3 to 2.6


class CudaLibrarySetting(PythonRule):
    """`preferred_linalg_library("magma")`, `preferred_blas_library(...)` and `cufft_plan_cache` raise where torch was
    built without CUDA.

    Instead: behind `torch.cuda.is_available()`.
    """

    code = "ADM01"
    name = "cuda-library-setting"
    summary = "raises where torch was built without CUDA"
    anchors = ("preferred_linalg_library", "preferred_blas_library", "preferred_rocm_fa_library", "cufft_plan_cache")
    examples = (
        Example(
            "a library",
            'import torch\ntorch.backends.cuda.preferred_linalg_library("magma")  # faster\n',
            'import torch\nif torch.cuda.is_available():\n    torch.backends.cuda.preferred_linalg_library("magma")  # faster\n',
        ),
        Example(
            "a size",
            "import torch\ntorch.backends.cuda.cufft_plan_cache.max_size = 10\n",
            "import torch\nif torch.cuda.is_available():\n    torch.backends.cuda.cufft_plan_cache.max_size = 10\n",
        ),
        Example(
            "a cache",
            "import torch\ndef f():\n    torch.backends.cuda.cufft_plan_cache.clear()\n",
            "import torch\ndef f():\n    if torch.cuda.is_available():\n        torch.backends.cuda.cufft_plan_cache.clear()\n",
        ),
        Example("a value", "import torch\nn = torch.backends.cuda.cufft_plan_cache.size\n"),
    )
    leaves = (
        Leave(
            "import torch\nif torch.cuda.is_available():\n    torch.backends.cuda.cufft_plan_cache.clear()\n",
            "asked first",
        ),
        Leave("import torch\nprint(torch.backends.cuda.preferred_linalg_library())\n", "only asks"),
        Leave("import torch\ntorch.backends.cudnn.benchmark = True\n", "does no harm without CUDA"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        context, module = site.context, site.module
        if not (site.qualname or "").startswith("torch.backends.cuda.") or needs_cuda(context, site.reference):
            return
        call = site.call
        if "cufft" not in site.word and (
            call is None or not call.arguments or text(call.arguments[0].value) in ('"default"', "'default'")
        ):
            return
        if any(
            a.type in ("if_statement", "conditional_expression") and "is_built" in text(a) for a in ancestors(site.leaf)
        ):
            return
        owner = statement(site.reference)
        torch = context.placement.torch_name(site.reference)
        condition = f"{torch.text}.cuda.is_available()"
        plain = _is_statement(context, owner, site.reference)
        lead = f"if {condition}:\n{module.indent(owner)}{module.indent_unit}"
        yield context.finding(
            self,
            site.reference,
            f"raises where torch was built without CUDA; ask `{condition}` first",
            Safety.SAFE if plain else Safety.MANUAL,
            [module.insert(owner.start_byte, lead), *torch.edits],
        )


def _is_statement(context: Context, owner: Node, reference: Node) -> bool:
    """Whether `owner` is a call or an assignment to `reference`, alone on its line, whose value nobody uses."""
    inner = first_named(owner)
    if owner.type != "expression_statement" or owner.named_child_count != 1 or inner is None:
        return False
    rest = context.module.data[owner.end_byte : context.module.line_end(owner.end_byte - 1)].lstrip()
    if not context.module.starts_line(owner) or rest.startswith(b";") or owner.start_point[0] != owner.end_point[0]:
        return False
    changed = (
        field(inner, "function")
        if inner.type == "call"
        else field(inner, "left")
        if inner.type == "assignment"
        else None
    )
    return changed is not None and text(changed).startswith(text(reference))


class CudnnVersionCompared(PythonRule):
    """`torch.backends.cudnn.version()` is None without cuDNN, and None cannot be compared with a number.

    Instead: `(torch.backends.cudnn.version() or 0)`.
    """

    code = "ADM02"
    name = "cudnn-version-compared"
    summary = "the version of cuDNN is None without CUDA"
    anchors = ("cudnn",)
    needs = (r"\bversion\(\)",)
    examples = (
        Example(
            "a comparison",
            "import torch\nnew = torch.backends.cudnn.version() >= 7603\n",
            "import torch\nnew = (torch.backends.cudnn.version() or 0) >= 7603\n",
        ),
        Example(
            "an alias",
            "from torch.backends import cudnn\nmajor = cudnn.version() // 1000\n",
            "from torch.backends import cudnn\nmajor = (cudnn.version() or 0) // 1000\n",
        ),
    )
    leaves = (
        Leave("import torch\nprint(torch.backends.cudnn.version())\n", "shown only"),
        Leave("import torch\nif torch.backends.cudnn.version() is None:\n    pass\n", "asks for None"),
        Leave("import torch\nif torch.version() > 1:\n    pass\n", "not of cuDNN"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.call
        parent = call.node.parent if call is not None else None
        if call is None or parent is None or parent.type not in ("comparison_operator", "binary_operator"):
            return
        if site.qualname != "torch.backends.cudnn.version" or needs_cuda(site.context, call.node):
            return
        if re.search(r"\bis\b|\bNone\b|%s", text(parent)) or (
            parent.type == "binary_operator" and string_value(parent.children[0]) is not None
        ):
            return
        written = f"({text(call.node)} or 0)"
        yield site.context.finding(
            self,
            call.node,
            f"None without cuDNN; write `{written}`",
            Safety.SAFE,
            [site.module.insert(call.node.start_byte, "("), site.module.insert(call.node.end_byte, " or 0)")],
        )


_FLAGS = (
    ("enable_flash", "FLASH_ATTENTION"),
    ("enable_math", "MATH"),
    ("enable_mem_efficient", "EFFICIENT_ATTENTION"),
    ("enable_cudnn", "CUDNN_ATTENTION"),
)


class CudaAttentionKernel(PythonRule):
    """`torch.backends.cuda.sdp_kernel(...)` and `sdpa_kernel(...)` without MATH allow only kernels that CUDA has: attention
    elsewhere fails with "No viable backend".

    Instead: `torch.nn.attention.sdpa_kernel([...])` with `SDPBackend.MATH` among its kernels; a kernel that fits is still
    preferred.
    """

    code = "ADM03"
    name = "cuda-attention-kernel"
    summary = "allows only attention kernels that CUDA has"
    anchors = ("sdp_kernel", "sdpa_kernel", "enable_math_sdp")
    examples = (
        Example(
            "the old name",
            "import torch\nwith torch.backends.cuda.sdp_kernel(enable_mem_efficient=False):\n    f()\n",
            "import torch\nwith torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.FLASH_ATTENTION, "
            "torch.nn.attention.SDPBackend.MATH, torch.nn.attention.SDPBackend.CUDNN_ATTENTION]):\n    f()\n",
        ),
        Example(
            "the old name, one kernel",
            "import torch\nwith torch.backends.cuda.sdp_kernel(enable_flash=False, enable_math=False, enable_cudnn=False):\n    f()\n",
            "import torch\nwith torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.MATH, "
            "torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION]):\n    f()\n",
        ),
        Example(
            "one kernel",
            "from torch.nn.attention import SDPBackend, sdpa_kernel\nwith sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):\n    f()\n",
            "from torch.nn.attention import SDPBackend, sdpa_kernel\n"
            "with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):\n    f()\n",
        ),
        Example(
            "some kernels",
            "from torch.nn.attention import SDPBackend, sdpa_kernel\n"
            "with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]):\n    f()\n",
            "from torch.nn.attention import SDPBackend, sdpa_kernel\n"
            "with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):\n    f()\n",
        ),
        Example("flags from elsewhere", "import torch\nwith torch.backends.cuda.sdp_kernel(**flags):\n    f()\n"),
        Example("switched off for good", "import torch\ntorch.backends.cuda.enable_math_sdp(False)\n"),
    )
    leaves = (
        Leave(
            "from torch.nn.attention import SDPBackend, sdpa_kernel\nwith sdpa_kernel(SDPBackend.MATH):\n    f()\n",
            "every device has it",
        ),
        Leave("import torch\ntorch.backends.cuda.enable_flash_sdp(True)\n", "does no harm without CUDA"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call, name = site.call, site.qualname or ""
        if call is None or not name.startswith("torch.") or needs_cuda(site.context, call.node):
            return
        if site.word == "enable_math_sdp":
            if call.positional and text(call.positional[0].value) == "False":
                yield site.context.finding(
                    self,
                    call.node,
                    "leaves no attention kernel on most other devices: switch MATH off only where "
                    '`device.type == "cuda"`',
                    Safety.MANUAL,
                )
        elif name == "torch.backends.cuda.sdp_kernel":
            yield self._flags(site, call)
        elif name.endswith(".attention.sdpa_kernel"):
            yield from self._kernels(site, call)

    def _flags(self, site: Site, call: Call) -> Finding:
        context = site.context
        values = {flag: call.argument(position, flag) for position, (flag, _) in enumerate(_FLAGS)}
        given = {flag: text(argument.value) if argument is not None else "True" for flag, argument in values.items()}
        known = (
            not call.has_star and set(given.values()) <= {"True", "False"} and context.target.torch >= Version("2.3")
        )
        attention = f"{context.placement.torch_name(call.node).text}.nn.attention"
        kernels = [
            f"{attention}.SDPBackend.{kernel}"
            for flag, kernel in _FLAGS
            if (given[flag] == "True" or flag == "enable_math")
            and (flag != "enable_cudnn" or context.target.torch >= Version("2.5"))
        ]
        written = f"{attention}.sdpa_kernel([{', '.join(kernels)}])"
        unchanged = given["enable_math"] == "True"
        return context.finding(
            self,
            call.node,
            f"allows kernels of CUDA; write `{written}`"
            if known
            else "allows kernels of CUDA: write `torch.nn.attention.sdpa_kernel([...])` with `SDPBackend.MATH` among them",
            (Safety.SAFE if unchanged else Safety.UNSAFE) if known else Safety.MANUAL,
            [site.module.replace(call.node, written), *context.placement.torch_name(call.node).edits],
        )

    def _kernels(self, site: Site, call: Call) -> Iterator[Finding]:
        argument = call.argument(0, "backends")
        if argument is None or argument.starred or "MATH" in text(argument.value):
            return
        value = argument.value
        kernels = value.named_children if value.type == "list" else [value]
        if not kernels or any(k.type != "attribute" or "SDPBackend." not in text(k) for k in kernels):
            return
        math = f"{text(kernels[-1]).rpartition('.')[0]}.MATH"
        written = f"[{', '.join([*(text(k) for k in kernels), math])}]"
        yield site.context.finding(
            self,
            call.node,
            f"allows only kernels that CUDA has; write `{written}`",
            Safety.UNSAFE,
            [site.module.replace(value, written)],
        )


class OptimizerFlag(PythonRule):
    """`capturable=True` (for CUDA graphs) raises at the first step on the CPU and on a Mac; so does `fused=True` with a
    torch before 2.6.

    Instead: only where the device has it, by the type of the chosen device.
    """

    code = "ADM04"
    name = "cuda-optimizer-flag"
    summary = "an optimizer's flag that the CPU does not have"
    anchors = ("capturable", "fused")
    needs = ("torch", r"\b(?:fused|capturable)\s*=\s*True")
    examples = (
        Example(
            "capturable",
            "import torch\no = torch.optim.Adam(ps, lr=1, capturable=True)\n",
            'import torch\no = torch.optim.Adam(ps, lr=1, capturable=device.type not in ("cpu", "mps"))\n',
        ),
        Example(
            "fused, in an old torch",
            "import torch\no = torch.optim.AdamW(ps, fused=True)\n",
            'import torch\no = torch.optim.AdamW(ps, fused=device.type not in ("cpu", "mps"))\n',
            torch="2.1",
        ),
    )
    leaves = (
        Leave("import torch\no = torch.optim.AdamW(ps, fused=True)\n", "every device has it since 2.6"),
        Leave(
            "import torch\no = torch.optim.AdamW(ps, capturable=False)\nf(x, capturable=True)\n",
            "off, or not an optimizer's",
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        argument = site.keyword
        if argument is None or text(argument.value) != "True" or argument.node.parent is None:
            return
        context = site.context
        if site.word == "fused" and context.target.torch >= _FUSED_EVERYWHERE:
            return
        call = argument.node.parent.parent
        name = context.module.qualname(field(call, "function")) if call is not None and call.type == "call" else None
        if not (name or "").startswith("torch.optim.") or needs_cuda(context, argument.node):
            return
        device = context.device(argument.node)
        written = f'{device.type} not in ("cpu", "mps")'
        yield context.finding(
            self,
            argument.node,
            f"not on the CPU and not on a Mac; write `{site.word}={written}`",
            Safety.SAFE,
            [site.module.replace(argument.value, written), *device.edits],
        )
