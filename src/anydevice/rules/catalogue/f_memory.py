"""Group F: how much memory the device has, uses, and has used."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.cuda_api import MEMORY, Fate, member
from anydevice.rules.cuda_calls import Written, is_decorator, is_free, rewrite, written
from anydevice.rules.guards import needs_cuda
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, string_value, text

# Old names, and what they are called since torch 1.4.
_RENAMED = {
    "memory_cached": "memory_reserved",
    "max_memory_cached": "max_memory_reserved",
    "reset_max_memory_allocated": "reset_peak_memory_stats",
    "reset_max_memory_cached": "reset_peak_memory_stats",
}


class CudaMemoryQuery(PythonRule):
    """`torch.cuda.memory_allocated()` and the rest read CUDA's allocator: 0 or an error on every other device.

    Instead: `torch.accelerator.memory_allocated()` behind `torch.accelerator.is_available()` once torch 2.13 is the oldest
    that is supported (it exists since 2.9, but fails on MPS before 2.13); until then the CUDA call, asked only of CUDA.
    `mem_get_info` is called `get_memory_info` there.
    """

    code = "ADF01"
    name = "cuda-memory-query"
    summary = "memory of the CUDA device is asked for"
    anchors = tuple(sorted(name for name in MEMORY if name != "empty_cache"))
    examples = (
        Example(
            "a number",
            "import torch\npeak = torch.cuda.max_memory_allocated()\n",
            "import torch\npeak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0\n",
        ),
        Example(
            "a number reckoned with",
            "import torch\npeak = torch.cuda.max_memory_allocated() / 2**20\n",
            "import torch\npeak = (torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0) / 2**20\n",
        ),
        Example(
            "the newest torch",
            "import torch\npeak = torch.cuda.max_memory_allocated(device=d)\n",
            "import torch\npeak = torch.accelerator.max_memory_allocated(d) if torch.accelerator.is_available() else 0\n",
            torch="2.13",
        ),
        Example(
            "a statement",
            "import torch\ntorch.cuda.reset_peak_memory_stats()\n",
            "import torch\nif torch.cuda.is_available():\n    torch.cuda.reset_peak_memory_stats()\n",
        ),
        Example(
            "an old name",
            "import torch\nm = torch.cuda.memory_cached()\n",
            "import torch\nm = torch.cuda.memory_reserved() if torch.cuda.is_available() else 0\n",
        ),
        Example(
            "free and total",
            "import torch\nfree, total = torch.cuda.mem_get_info()\n",
            "import torch\nfree, total = torch.accelerator.get_memory_info() if torch.accelerator.is_available() else (0, 0)\n",
            torch="2.13",
        ),
        Example(
            "a statistic",
            "import torch\nn = torch.cuda.memory_stats()['num_ooms']\n",
            "import torch\nn = torch.cuda.memory_stats()['num_ooms'] if torch.cuda.is_available() else 0\n",
        ),
        Example(
            "a summary",
            "import torch\nprint(torch.cuda.memory_summary())\n",
            'import torch\nprint(torch.cuda.memory_summary() if torch.cuda.is_available() else "")\n',
        ),
    )
    leaves = (
        Leave(
            "import torch\nif torch.cuda.is_available():\n    print(torch.cuda.memory_allocated())\n",
            "asked only of CUDA",
        ),
        Leave("psutil.memory_stats()\n", "not torch"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        name = member(site.qualname)
        if name not in MEMORY or name == "empty_cache" or site.is_import:
            return
        context, call = site.context, site.call
        if call is None or is_decorator(call.node):
            if not needs_cuda(context, site.reference):
                yield context.finding(
                    self,
                    site.reference,
                    f"`torch.cuda.{name}` reads CUDA's allocator only: hand on a guarded function",
                    Safety.MANUAL,
                )
            return
        form = written(context, call, name)
        renamed = _RENAMED.get(name)
        if renamed is not None and (form is None or not form.function.endswith(f".{MEMORY[name].counterpart}")):
            function = re.sub(r"\w+\Z", renamed, text(call.function))
            if call.function.type == "identifier":  # from torch.cuda import memory_cached
                function = f"{context.placement.torch_name(call.node).text}.cuda.{renamed}"
            form = Written(
                function, None, form.condition if form is not None else None, form.edits if form is not None else ()
            )
        if form is None:
            return
        message = f"reads CUDA's allocator only; write `{form.text(call)}`"
        if form.condition is not None:
            message += f" behind `{form.condition.text}`"
        if MEMORY[name].fate is Fate.ACCELERATOR and "accelerator" not in form.function:
            message += (
                f" (from torch 2.13 on `torch.accelerator.{MEMORY[name].counterpart}` reads it on every accelerator)"
            )
        safety = Safety.MANUAL if context.is_scripted(call.node) else Safety.SAFE
        asked = call.node.parent
        if name == "memory_stats" and form.condition is not None and asked is not None and asked.type == "subscript":
            key = text(asked)[call.node.end_byte - asked.start_byte :]  # one number of the statistics
            conditional = f"{form.text(call)}{key} if {form.condition.text} else 0"
            new = conditional if is_free(asked) else f"({conditional})"
            edits = [context.module.replace(asked, new), *form.edits, *form.condition.edits]
            yield context.finding(self, call.node, message, safety, edits)
            return
        otherwise = MEMORY[name].otherwise
        if otherwise == '""' and any(a.type == "interpolation" for a in ancestors(call.node)):
            otherwise = "None"
        yield context.finding(self, call.node, message, safety, rewrite(context, call, form, otherwise))


class NvidiaManagementTool(PythonRule):
    """`pynvml`, `GPUtil`, `nvidia-smi` and their like ask NVIDIA's driver, which other machines have not.

    Instead: import and ask them only where `torch.cuda.is_available()` and `torch.version.cuda` say so, or do without.
    """

    code = "ADF02"
    name = "nvidia-management-tool"
    summary = "NVIDIA's driver is asked"
    _MODULES = frozenset({"pynvml", "GPUtil", "gpustat", "py3nvml", "nvidia_smi", "nvitop", "nvsmi", "nvgpu"})
    anchors = tuple(sorted(_MODULES))
    text_anchors = ("nvidia",)
    examples = (
        Example("an import", "import pynvml\npynvml.nvmlInit()\n"),
        Example("a command", 'import subprocess\nout = subprocess.check_output(["nvidia-smi", "-L"])\n'),
        Example("a command line", 'import os\nos.system("nvidia-smi --query-gpu=memory.used > tmp")\n'),
    )
    leaves = (
        Leave('print("see nvidia-smi")\n', "a message"),
        Leave('url = "https://nvidia.com/nvidia-smi"\n', "an address"),
        Leave("try:\n    import pynvml\nexcept ImportError:\n    pynvml = None\n", "can do without"),
    )
    _RUNS = re.compile(
        r"(?:.*\.)?(?:system|popen|Popen|run|call|check_output|check_call|getoutput|getstatusoutput|which|exec_command)\Z"
    )

    def check(self, site: Site) -> Iterator[Finding]:
        context = site.context
        if site.in_string:
            value = string_value(site.leaf) or text(site.leaf)
            call = self._run_call(site.leaf)
            if "nvidia-smi" in value and call is not None and not needs_cuda(context, call):
                yield context.finding(
                    self,
                    call,
                    "`nvidia-smi` is missing on other machines: run it only `if torch.cuda.is_available():`",
                    Safety.MANUAL,
                )
            return
        if not site.is_import or text(site.leaf) != site.word or needs_cuda(context, site.leaf):
            return
        owner = next(a for a in ancestors(site.leaf) if a.type in ("import_statement", "import_from_statement"))
        if any(a.type == "try_statement" for a in ancestors(owner)) or not self._is_module(site.leaf, owner):
            return
        yield context.finding(
            self,
            owner,
            f"`{site.word}` asks NVIDIA's driver: import and use it only where CUDA is, and do without elsewhere",
            Safety.MANUAL,
        )

    def _is_module(self, leaf: Node, owner: Node) -> bool:
        """Whether the leaf is the first name of the module that is imported."""
        words = re.findall(r"[\w.]+", text(owner))
        return any(word.split(".")[0] == text(leaf) for word in words[1:2] if words) or owner.type == "import_statement"

    def _run_call(self, string: Node) -> Node | None:
        """The call that runs a command, when the string is (part of) its command."""
        for parent in ancestors(string):
            if parent.type == "call":
                return parent if self._RUNS.match(text(Call(parent).function)) else None
            if parent.type not in (
                "argument_list",
                "list",
                "tuple",
                "binary_operator",
                "concatenated_string",
                "parenthesized_expression",
            ):
                return None
        return None


class CudaAllocatorSetting(PythonRule):
    """`PYTORCH_CUDA_ALLOC_CONF` is read by the CUDA allocator only, and does no harm elsewhere.

    Instead: nothing. The new name `PYTORCH_ALLOC_CONF` exists since torch 2.9, but 2.9.1 ignores it for
    `expandable_segments`, and torch 2.12 no longer calls the old one deprecated: leave it, it is right on CUDA.

    References: https://github.com/pytorch/pytorch/issues/183387
    """

    code = "ADF03"
    name = "cuda-allocator-setting"
    summary = "a setting that only the CUDA allocator reads"
    text_anchors = ("PYTORCH_CUDA_ALLOC_CONF",)
    examples = (Example("set", 'import os\nos.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"\n'),)
    leaves = (Leave('print("set PYTORCH_CUDA_ALLOC_CONF")\n', "a message"),)

    def check(self, site: Site) -> Iterator[Finding]:
        if string_value(site.leaf) == "PYTORCH_CUDA_ALLOC_CONF":
            yield site.context.finding(
                self,
                site.leaf,
                "read by the CUDA allocator only, and harmless elsewhere: leave it, other devices need nothing here",
                Safety.MANUAL,
            )
