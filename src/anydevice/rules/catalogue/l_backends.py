"""Group L, third part: the nccl backend of torch.distributed, and what exists with it only."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.catalogue.l_parallel import conditional
from anydevice.rules.guards import needs_cuda
from anydevice.rules.placement import Expression
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.syntax import ancestors, field, same, string_value, text, walk

_NCCL = re.compile(r"(?i)nccl\Z|(?=.*cuda:nccl)(?:cpu:gloo|cuda:nccl)(?:,(?:cpu:gloo|cuda:nccl))?\Z")
_BACKEND_WORD = re.compile(r"(?i)backend|\bdist\b|dist_?")
_STARTERS = re.compile(
    r"(?:^|[._])(?:init_process_group|new_group|new_subgroups\w*|init_distributed\w*|init_dist\w*|init_device_mesh|init_process)$"
)
_UNSENT = re.compile(
    r"(?:^|\.)(?:print|debug|info|warning|warn|error|log|startswith|endswith|find|replace|split|getenv|get|pop|skipIf|hasattr|getattr)$"
)


def backend(context: Context, node: Node) -> Expression:
    """An expression for the backend of the chosen device: nccl on CUDA, xccl on xpu, gloo elsewhere."""
    device = context.device(node)
    if context.target.has("torch.distributed.get_default_backend_for_device"):
        name = next(
            (
                text(b.node)
                for b in context.module.names.imports
                if b.target == "torch.distributed" and b.scope.type == "module"
            ),
            None,
        )
        torch = context.placement.torch_name(node)
        edits = device.edits if name is not None else (*torch.edits, *device.edits)
        return Expression(f"{name or torch.text + '.distributed'}.get_default_backend_for_device({device.expr})", edits)
    return Expression(f'{{"cuda": "nccl", "xpu": "xccl"}}.get({device.type}, "gloo")', device.edits)


class NcclOnlyBackend(PythonRule):
    """The `nccl` backend exists on CUDA only, and not on Windows.

    Instead: `torch.distributed.get_default_backend_for_device(device)`, which is nccl on CUDA, xccl on Intel GPUs and
    gloo on the CPU and on a Mac. For a torch before 2.6 that choice is spelled out.

    References: https://docs.pytorch.org/docs/stable/distributed.html
    """

    code = "ADL05"
    name = "nccl-only-backend"
    summary = "the nccl backend exists on CUDA only"
    anchors = ("NCCL",)
    text_anchors = ("nccl", "NCCL")
    examples = (
        Example(
            "by position",
            'import torch\nimport torch.distributed as dist\ndist.init_process_group("nccl", rank=0)\n',
            "import torch\nimport torch.distributed as dist\ndist.init_process_group(dist.get_default_backend_for_device(device), rank=0)\n",
        ),
        Example(
            "by name",
            "import torch\ntorch.distributed.init_process_group(backend='NCCL')\n",
            "import torch\ntorch.distributed.init_process_group(backend=torch.distributed.get_default_backend_for_device(device))\n",
        ),
        Example(
            "one backend per device type",
            'import torch\ntorch.distributed.init_process_group("cpu:gloo,cuda:nccl")\n',
            "import torch\ntorch.distributed.init_process_group(torch.distributed.get_default_backend_for_device(device) "
            'if device.type == "cpu" else f"cpu:gloo,{device.type}:{torch.distributed.get_default_backend_for_device(device)}")\n',
        ),
        Example(
            "an argument of a program",
            'import torch\np.add_argument("--dist-backend", default="nccl")\n',
            'import torch\np.add_argument("--dist-backend", default=torch.distributed.get_default_backend_for_device(device))\n',
        ),
        Example(
            "a default",
            'import torch\ndef setup(rank, backend="nccl"):\n    pass\n',
            "import torch\ndef setup(rank, backend=torch.distributed.get_default_backend_for_device(device)):\n    pass\n",
        ),
        Example(
            "a choice",
            'import torch\nbackend = "nccl" if torch.cuda.is_available() else "gloo"\n',
            "import torch\nbackend = torch.distributed.get_default_backend_for_device(device) "
            'if torch.cuda.is_available() else "gloo"\n',
        ),
        Example(
            "the constant",
            "import torch\nfrom torch import distributed as dist\ndist.init_process_group(dist.Backend.NCCL)\n",
            "import torch\nfrom torch import distributed as dist\ndist.init_process_group(dist.get_default_backend_for_device(device))\n",
        ),
        Example(
            "an old torch",
            'import torch\ntorch.distributed.init_process_group("nccl")\n',
            'import torch\ntorch.distributed.init_process_group({"cuda": "nccl", "xpu": "xccl"}.get(device.type, "gloo"))\n',
            torch="1.8",
        ),
        Example(
            "what hangs on it",
            'import torch\nif backend == "nccl":\n    torch.cuda.set_device(rank)\n',
            'import torch\nif backend != "gloo":\n    torch.cuda.set_device(rank)\n',
        ),
        Example(
            "a function of one's own",
            'import torch\nlaunch(main, "nccl")\n',
            "import torch\nlaunch(main, torch.distributed.get_default_backend_for_device(device))\n",
        ),
        Example("a configuration file", 'dist_params = dict(backend="nccl")\n'),
    )
    leaves = (
        Leave('import torch\nb = {"cuda": "nccl", "cpu": "gloo"}[d.type]\n', "chosen by device already"),
        Leave('import torch\np.add_argument("--b", choices=["nccl", "gloo"])\n', "what may be given"),
        Leave(
            'import torch\nlog.info("nccl")\nos.environ["NCCL_DEBUG"] = "INFO"\n', "a message, an environment variable"
        ),
        Leave('import torch\nif backend == "nccl":\n    n = 1\n', "does not touch devices"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        context = site.context
        if not site.in_string:
            if (site.qualname or "").endswith("distributed.Backend.NCCL") and not self._compared(site, site.reference):
                yield self._written(site, site.reference, Safety.SAFE)
            return
        value = string_value(site.leaf)
        if value is None or not _NCCL.match(value):
            return
        if self._compared(site, site.leaf):
            yield from self._comparison(site)
            return
        safety = self._safety(context, site.leaf)
        if safety is not None:
            yield self._written(site, site.leaf, safety)

    def _written(self, site: Site, node: Node, safety: Safety) -> Finding:
        context = site.context
        chosen = backend(context, node)
        written = chosen.text
        if ":" in (string_value(node) or "") and context.target.has("torch.distributed.get_default_backend_for_device"):
            device = context.device(node)
            written = f'{written} if {device.type} == "cpu" else f"cpu:gloo,{{{device.type}}}:{{{chosen.text}}}"'
        if not any(b.target and b.target.split(".")[0] == "torch" for b in context.module.names.imports):
            return context.finding(
                self,
                node,
                f'exists on CUDA only: write "gloo" elsewhere, or take `{chosen.text}` where torch is imported',
                Safety.MANUAL,
            )
        return context.finding(
            self,
            node,
            f"exists on CUDA only; write `{written}`",
            safety,
            [site.module.replace(node, written), *chosen.edits],
        )

    def _compared(self, site: Site, node: Node) -> bool:
        return node.parent is not None and node.parent.type == "comparison_operator"

    def _comparison(self, site: Site) -> Iterator[Finding]:
        comparison = site.leaf.parent
        if comparison is None or comparison.named_child_count != 2:
            return
        left, right = comparison.named_children
        operator = site.module.data[left.end_byte : right.start_byte].decode().strip()
        holder = comparison.parent
        while holder is not None and holder.type in ("parenthesized_expression", "boolean_operator", "not_operator"):
            holder = holder.parent
        opposite = {"==": "!=", "!=": "=="}.get(operator)
        if holder is None or opposite is None or not same(right, site.leaf):
            return
        if not re.search(r"cuda|device|accelerator", text(holder)) or "gloo" in text(holder):
            return
        quote = text(site.leaf)[0]
        new = f"{text(left)} {opposite} {quote}gloo{quote}"
        yield site.context.finding(
            self,
            comparison,
            f"other accelerators have backends of their own; write `{new}`",
            Safety.UNSAFE,
            [site.module.replace(comparison, new)],
        )

    def _safety(self, context: Context, literal: Node) -> Safety | None:
        """How sure it is that the string is a backend; None where it is none."""
        current: Node = literal
        for parent in ancestors(literal):
            if parent.type == "conditional_expression":
                if same(parent.named_child(1), current) or re.search(r"\b(?:xpu|xccl|mps)\b", text(parent)):
                    return None
            elif parent.type == "boolean_operator":
                if "or" not in text(parent).split():
                    return None
            elif parent.type != "parenthesized_expression":
                return self._in(context, parent, current)
            current = parent
        return None

    def _in(self, context: Context, parent: Node, current: Node) -> Safety | None:
        if parent.type == "keyword_argument":
            call = parent.parent.parent if parent.parent is not None else None
            name = text(field(parent, "name") or parent)
            if name == "default" and call is not None and call.type == "call":
                return Safety.SAFE
            return Safety.SAFE if _BACKEND_WORD.search(name) else None
        if parent.type == "argument_list":
            call = parent.parent
            name = text(field(call, "function") or call) if call is not None else ""
            if _STARTERS.search(name):
                return Safety.SAFE
            return None if _UNSENT.search(name) or call is None or call.type != "call" else Safety.UNSAFE
        if parent.type in ("default_parameter", "typed_default_parameter", "assignment"):
            target = field(parent, "name") or field(parent, "left")
            named = target is not None and same(field(parent, "value") or field(parent, "right"), current)
            return (
                (Safety.SAFE if _BACKEND_WORD.search(text(target)) else Safety.UNSAFE)
                if named and target is not None
                else None
            )
        if parent.type == "pair" and same(field(parent, "value"), current):
            key = string_value(field(parent, "key") or parent) or ""
            return Safety.SAFE if _BACKEND_WORD.search(key) else None
        if parent.type == "return_statement":
            return Safety.SAFE if _BACKEND_WORD.search(context.module.function_name(parent) or "") else Safety.UNSAFE
        return None


class NcclOnlyApi(PythonRule):
    """`ProcessGroupNCCL` and `torch.cuda.nccl` are missing from builds of torch without NCCL.

    Instead: ask `torch.distributed.is_nccl_available()` first, or use torch.distributed's own functions, which work with
    every backend.
    """

    code = "ADL10"
    name = "nccl-only-api"
    summary = "missing from a torch without NCCL"
    anchors = ("nccl", "ProcessGroupNCCL")
    examples = (
        Example(
            "a version",
            "import torch\nprint(torch.cuda.nccl.version())\n",
            "import torch\nprint(torch.cuda.nccl.version() if torch.distributed.is_nccl_available() else None)\n",
        ),
        Example("a collective", "import torch\ntorch.cuda.nccl.all_reduce(xs)\n"),
        Example("a process group", "import torch.distributed as dist\nopts = dist.ProcessGroupNCCL.Options()\n"),
        Example("imported", "from torch.distributed import ProcessGroupNCCL\n"),
    )
    leaves = (
        Leave(
            "import torch\nif torch.distributed.is_nccl_available():\n    v = torch.cuda.nccl.version()\n",
            "asked first",
        ),
        Leave("import torch.cuda.nccl as nccl\n", "the module itself can be imported anywhere"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        context = site.context
        if site.is_import:
            if site.word == "ProcessGroupNCCL" and not any(a.type == "try_statement" for a in ancestors(site.leaf)):
                yield context.finding(
                    self,
                    site.leaf,
                    "missing from a torch without NCCL: import it where `torch.distributed.is_nccl_available()`",
                    Safety.MANUAL,
                )
            return
        name = site.qualname or ""
        if not name.startswith(("torch.cuda.nccl.", "torch.distributed.ProcessGroupNCCL")) or self._is_asked(
            context, site.reference
        ):
            return
        if name == "torch.cuda.nccl.version" and site.call is not None:
            torch = context.placement.torch_name(site.reference)
            condition = f"{torch.text}.distributed.is_nccl_available()"
            yield context.finding(
                self,
                site.call.node,
                f"raises on a torch without NCCL; ask `{condition}` first",
                Safety.SAFE,
                [*conditional(context, site.call.node, condition, "None"), *torch.edits],
            )
            return
        yield context.finding(
            self,
            site.reference,
            "missing from a torch without NCCL: use the functions of torch.distributed, or ask "
            "`torch.distributed.is_nccl_available()` first",
            Safety.MANUAL,
        )

    def _is_asked(self, context: Context, node: Node) -> bool:
        return needs_cuda(context, node) or any(
            a.type in ("if_statement", "conditional_expression", "try_statement")
            and ("nccl" in text(a).split("\n")[0] or a.type == "try_statement")
            and any("is_nccl_available" in text(n) for n in walk(a) if n.type == "call")
            for a in ancestors(node)
        )
