"""Group H, second part: marks and measurements for profilers."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.catalogue.h_streams import null_conditional
from anydevice.rules.cuda_api import member
from anydevice.rules.cuda_calls import guarded_statement, is_decorator, rewrite, written
from anydevice.rules.guards import needs_cuda
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.source.syntax import field, same, string_value, text

_CUDA = "if torch.cuda.is_available():\n    "


class CudaProfilerMark(PythonRule):
    """`torch.cuda.nvtx.range_push`, `torch.cuda.profiler.start`, `cudart().cudaProfilerStart()`: marks for NVIDIA's profilers.

    They raise where there is no CUDA and mean nothing there. Instead: only where CUDA is.
    """

    code = "ADH04"
    name = "cuda-profiler-mark"
    summary = "marks for NVIDIA's profilers"
    anchors = ("cuda", "emit_nvtx")
    examples = (
        Example(
            "a push",
            'import torch\ntorch.cuda.nvtx.range_push("a")\n',
            f'import torch\n{_CUDA}torch.cuda.nvtx.range_push("a")\n',
        ),
        Example(
            "a range",
            'import torch\nwith torch.cuda.nvtx.range("a"):\n    f()\n',
            'import torch\nwith torch.cuda.nvtx.range("a") if torch.cuda.is_available() else contextlib.nullcontext():\n    f()\n',
        ),
        Example(
            "an alias",
            "import torch\nfrom torch.cuda import nvtx\nnvtx.range_pop()\n",
            f"import torch\nfrom torch.cuda import nvtx\n{_CUDA}nvtx.range_pop()\n",
        ),
        Example(
            "a profiler's start",
            "import torch\ntorch.cuda.cudart().cudaProfilerStart()\n",
            f"import torch\n{_CUDA}torch.cuda.cudart().cudaProfilerStart()\n",
        ),
        Example("a decorator", 'import torch\n@torch.cuda.nvtx.range("a")\ndef f(): ...\n'),
        Example("marks of autograd", "import torch\nwith torch.autograd.profiler.emit_nvtx():\n    f()\n"),
        Example("the runtime", "import torch\nlib = torch.cuda.cudart()\n"),
    )
    leaves = (
        Leave('import torch\nif torch.cuda.is_available():\n    torch.cuda.nvtx.mark("a")\n', "asked only of CUDA"),
        Leave("import nvtx\nnvtx.push_range('a')\n", "another library, which runs everywhere"),
    )
    _CONTEXTS = frozenset({"nvtx.range", "profiler.profile"})

    def check(self, site: Site) -> Iterator[Finding]:
        context, name = site.context, member(site.qualname) or ""
        emits = (site.qualname or "") in (
            "torch.autograd.profiler.emit_nvtx",
            "torch.autograd.profiler.profiler.emit_nvtx",
        )
        if name.partition(".")[0] not in ("nvtx", "profiler", "cudart") and not emits:
            return
        if site.is_import or needs_cuda(context, site.reference):
            return
        call = site.call
        if call is None or is_decorator(call.node):
            yield context.finding(
                self,
                site.reference,
                f"`{text(site.reference)}` raises where there is no CUDA: use it only there",
                Safety.MANUAL,
            )
        elif emits:
            message = "raises where there is no CUDA: give `enabled=` whether `torch.cuda.is_available()`"
            yield context.finding(self, call.node, message, Safety.MANUAL)
        elif name in self._CONTEXTS:
            new, edits = null_conditional(context, call)
            yield context.finding(self, call.node, f"raises where there is no CUDA; write `{new}`", Safety.SAFE, edits)
        elif name == "cudart":
            stated = guarded_statement(context, call.node)
            yield context.finding(
                self,
                call.node,
                "the CUDA runtime: ask it only behind `if torch.cuda.is_available():`",
                Safety.SAFE if stated else Safety.MANUAL,
                stated or [],
            )
        else:
            form = written(context, call, name)
            if form is not None:
                yield context.finding(
                    self,
                    call.node,
                    f"`{text(call.node)[:60]}` raises where there is no CUDA: call it only behind `if torch.cuda.is_available():`",
                    Safety.SAFE,
                    rewrite(context, call, form),
                )


class CudaProfilerActivity(PythonRule):
    """`ProfilerActivity.CUDA` and the profiler's `cuda_time_total` leave other accelerators unmeasured.

    Instead: `torch.profiler.supported_activities()`, which on a CUDA machine is CPU and CUDA; `device_time_total`, which
    is what torch calls it since 2.4.
    """

    code = "ADH05"
    name = "cuda-profiler-activity"
    summary = "the profiler measures CUDA only"
    anchors = (
        "ProfilerActivity",
        "use_cuda",
        "cuda_time",
        "cuda_time_total",
        "self_cuda_time_total",
        "cuda_memory_usage",
        "self_cuda_memory_usage",
    )
    text_anchors = (
        "cuda_time",
        "cuda_time_total",
        "self_cuda_time_total",
        "cuda_memory_usage",
        "self_cuda_memory_usage",
    )
    examples = (
        Example(
            "both activities",
            "import torch\nfrom torch.profiler import profile, ProfilerActivity\n"
            "p = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])\n",
            "import torch\nfrom torch.profiler import profile, ProfilerActivity\np = profile(activities=torch.profiler.supported_activities())\n",
        ),
        Example(
            "one activity",
            "import torch\np = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])\n",
        ),
        Example(
            "a column",
            'import torch\nprint(p.key_averages().table(sort_by="cuda_time_total"))\n',
            'import torch\nprint(p.key_averages().table(sort_by="device_time_total"))\n',
        ),
        Example(
            "a number",
            "import torch.profiler\nt = event.self_cuda_time_total\n",
            "import torch.profiler\nt = event.self_device_time_total\n",
        ),
        Example(
            "an old argument", "import torch\nwith torch.autograd.profiler.profile(use_cuda=True) as p:\n    f()\n"
        ),
    )
    leaves = (
        Leave("import torch\na = torch.profiler.ProfilerActivity.CPU\n", "the CPU's"),
        Leave("f(use_cuda=True)\n", "an argument of one's own"),
        Leave(
            "import torch\nif torch.cuda.is_available():\n    a.append(torch.profiler.ProfilerActivity.CUDA)\n",
            "asked only of CUDA",
        ),
        Leave('import torch\np.export_stacks("a", "self_cuda_time_total")\n', "the only name that this function knows"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        context = site.context
        if site.in_string:
            keyword = site.leaf.parent
            name = field(keyword, "name") if keyword is not None and keyword.type == "keyword_argument" else None
            if name is not None and text(name) == "sort_by" and "_" in (string_value(site.leaf) or ""):
                yield from self._renamed(site, site.leaf)
        elif site.word == "ProfilerActivity":
            yield from self._activity(site)
        elif site.word == "use_cuda":
            yield from self._use_cuda(site)
        elif (
            site.leaf.parent is not None
            and site.leaf.parent.type == "attribute"
            and same(field(site.leaf.parent, "attribute"), site.leaf)
        ):
            receiver = field(site.leaf.parent, "object")
            if (
                b"profile" in site.module.data
                and receiver is not None
                and text(receiver) != "self"
                and not context.is_scripted(site.leaf)
            ):
                yield from self._renamed(site, site.leaf)

    def _renamed(self, site: Site, node: Node) -> Iterator[Finding]:
        if not site.context.target.has_accelerator or (site.leaf.parent is not None and _is_assigned(site.leaf.parent)):
            return
        new = text(node).replace("cuda", "device")
        yield site.context.finding(
            self,
            node,
            f"of CUDA only by its name, and gone from the newest torch; write `{new}`",
            Safety.SAFE,
            [site.module.replace(node, new)],
        )

    def _activity(self, site: Site) -> Iterator[Finding]:
        context, reference = site.context, site.reference
        if (
            site.is_import
            or not (site.qualname or "").endswith("ProfilerActivity.CUDA")
            or needs_cuda(context, reference)
        ):
            return
        items = reference.parent
        both = (
            items is not None
            and items.type in ("list", "tuple", "set")
            and {text(item).rsplit(".", 1)[-1] for item in items.named_children} == {"CPU", "CUDA"}
        )
        if both and items is not None:
            torch = context.placement.torch_name(reference)
            new = f"{torch.text}.profiler.supported_activities()"
            yield context.finding(
                self,
                reference,
                f"leaves other accelerators unmeasured; write `{new}`",
                Safety.SAFE,
                [site.module.replace(items, new), *torch.edits],
            )
            return
        yield context.finding(
            self,
            reference,
            "measures CUDA only, and is no activity at all elsewhere: add it only `if torch.cuda.is_available()`",
            Safety.MANUAL,
        )

    def _use_cuda(self, site: Site) -> Iterator[Finding]:
        argument = site.keyword
        call = argument.node.parent.parent if argument is not None and argument.node.parent is not None else None
        if argument is None or call is None or call.type != "call" or text(argument.value) != "True":
            return
        name = site.module.qualname(field(call, "function")) or ""
        if name in ("torch.autograd.profiler.profile", "torch.profiler.profile"):
            yield site.context.finding(
                self,
                argument.node,
                "measures CUDA only, and warns elsewhere: give `use_device=device.type` where there is an accelerator",
                Safety.MANUAL,
            )


def _is_assigned(attribute: Node) -> bool:
    parent = attribute.parent
    return (
        parent is not None
        and parent.type in ("assignment", "augmented_assignment")
        and same(field(parent, "left"), attribute)
    )
