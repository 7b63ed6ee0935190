"""Group H, third part: CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterator

from anydevice.finding import Finding, Safety
from anydevice.rules.catalogue.h_streams import is_annotation
from anydevice.rules.cuda_api import member
from anydevice.rules.cuda_calls import rewrite, written
from anydevice.rules.guards import needs_cuda
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.source.syntax import text


class CudaGraphs(PythonRule):
    """`torch.cuda.CUDAGraph`, `torch.cuda.graph(g)`, `make_graphed_callables`: launches recorded and replayed, on CUDA only.

    Instead: run the code as it is where there is no CUDA. `torch.accelerator.Graph` (torch 2.12) records on XPU too.
    """

    code = "ADH03"
    name = "cuda-graph"
    summary = "CUDA graphs"
    anchors = ("cuda",)
    examples = (
        Example("a graph", "import torch\ng = torch.cuda.CUDAGraph()\n"),
        Example("a capture", "import torch\nwith torch.cuda.graph(g):\n    f()\n"),
        Example(
            "a question",
            "import torch\nif not torch.cuda.is_current_stream_capturing():\n    f()\n",
            "import torch\nif not (torch.cuda.is_current_stream_capturing() if torch.cuda.is_available() else False):\n    f()\n",
        ),
    )
    leaves = (
        Leave("import torch\nif torch.cuda.is_available():\n    g = torch.cuda.CUDAGraph()\n", "asked only of CUDA"),
    )
    _NAMES = frozenset(
        {"CUDAGraph", "graph", "graphs", "graph_pool_handle", "make_graphed_callables", "is_current_stream_capturing"}
    )

    def check(self, site: Site) -> Iterator[Finding]:
        context, name = site.context, member(site.qualname) or ""
        if name.partition(".")[0] not in self._NAMES or site.is_import:
            return
        if needs_cuda(context, site.reference) or is_annotation(site.reference):
            return
        if name == "is_current_stream_capturing" and site.call is not None:
            form = written(context, site.call, name)
            if form is not None:
                yield context.finding(
                    self,
                    site.call.node,
                    "raises where there is no CUDA: it is False there",
                    Safety.SAFE,
                    rewrite(context, site.call, form, "False"),
                )
            return
        newer = (
            " (`torch.accelerator.Graph` records on other accelerators)"
            if context.target.has("torch.accelerator.Graph")
            else ""
        )
        yield context.finding(
            self,
            site.reference,
            f"`{text(site.reference)}` exists on CUDA only{newer}: where `torch.cuda.is_available()` is False, run the function itself",
            Safety.MANUAL,
        )
