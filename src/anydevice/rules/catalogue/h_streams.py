"""Group H, first part: streams and events."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.cuda_api import member
from anydevice.rules.cuda_calls import STREAM_METHODS, guarded_statement, is_decorator, is_free
from anydevice.rules.guards import needs_cuda
from anydevice.rules.imports import imported, nullcontext
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, field, same, text

_CUDA = "if torch.cuda.is_available():\n    "


def null_conditional(context: Context, call: Call) -> tuple[str, list[Edit]]:
    """`call`, a context manager of CUDA's, or one that does nothing where there is no CUDA."""
    torch, null = context.placement.torch_name(call.node), nullcontext(context, call.node)
    new = f"{text(call.node)} if {torch.text}.cuda.is_available() else {null.text}"
    if not is_free(call.node):
        new = f"({new})"
    return new, [context.module.replace(call.node, new), *torch.edits, *null.edits]


def is_annotation(node: Node) -> bool:
    """Whether a name is only used as a type: an annotation, `isinstance`."""
    for parent in ancestors(node):
        if parent.type == "type":
            return True
        if parent.type == "call":
            return text(Call(parent).function) in ("isinstance", "issubclass")
        if parent.type not in ("argument_list", "tuple", "subscript", "binary_operator"):
            return False
    return False


class CudaStream(PythonRule):
    """Streams of CUDA: `torch.cuda.Stream()`, `with torch.cuda.stream(s):`, `current_stream().wait_stream(s)`, `record_stream`.

    They order work on one GPU and raise where there is no CUDA. Elsewhere work runs in order anyway, so nothing stands in
    for them: `None`, a context that does nothing, and no waiting.
    """

    code = "ADH01"
    name = "cuda-stream"
    summary = "a CUDA stream"
    anchors = ("cuda", "wait_stream", "record_stream", "wait_event")
    examples = (
        Example(
            "a stream and its use",
            "import torch\ns = torch.cuda.Stream()\nwith torch.cuda.stream(s):\n    f()\n",
            "import torch\ns = torch.cuda.Stream() if torch.cuda.is_available() else None\n"
            "with torch.cuda.stream(s) if torch.cuda.is_available() else contextlib.nullcontext():\n    f()\n",
        ),
        Example(
            "waiting",
            "import torch\ntorch.cuda.current_stream().wait_stream(self.stream)\n",
            f"import torch\n{_CUDA}torch.cuda.current_stream().wait_stream(self.stream)\n",
        ),
        Example(
            "a record",
            "import torch\nx.record_stream(torch.cuda.current_stream())\n",
            f"import torch\n{_CUDA}x.record_stream(torch.cuda.current_stream())\n",
        ),
        Example(
            "a stream's own methods",
            "import torch\ns = torch.cuda.Stream()\ns.wait_stream(torch.cuda.current_stream())\ns.synchronize()\n",
            "import torch\ns = torch.cuda.Stream() if torch.cuda.is_available() else None\n"
            f"{_CUDA}s.wait_stream(torch.cuda.current_stream())\n{_CUDA}s.synchronize()\n",
        ),
        Example("a raw handle", "import torch\nraw = torch.cuda.current_stream().cuda_stream\n"),
        Example(
            "a kernel's stream",
            "import torch\nkernel(x, stream=torch.cuda.current_stream().cuda_stream)\n",
        ),
        Example(
            "an event's stream",
            "import torch\nevent.record(torch.cuda.current_stream())\n",
            "import torch\nevent.record(torch.cuda.current_stream() if torch.cuda.is_available() else None)\n",
        ),
        Example("many streams", "import torch\nstreams = [torch.cuda.Stream() for _ in range(4)]\n"),
    )
    leaves = (
        Leave("import torch\nif torch.cuda.is_available():\n    s = torch.cuda.Stream()\n", "asked only of CUDA"),
        Leave("import torch\ndef f(s: torch.cuda.Stream) -> None: ...\n", "a type"),
        Leave("import torch\ns = torch.xpu.Stream()\ns.wait_stream(t)\n", "not CUDA's"),
        Leave("import cupy\nwith cupy.cuda.Stream():\n    pass\n", "cupy is not torch"),
    )
    _NAMES = frozenset(
        {"Stream", "current_stream", "default_stream", "set_stream", "ExternalStream", "get_stream_from_external"}
    )

    def check(self, site: Site) -> Iterator[Finding]:
        context = site.context
        if site.word != "cuda":
            yield from self._method(site)
            return
        name = member(site.qualname) or ""
        head = name.partition(".")[0]
        if (head not in self._NAMES and head not in ("stream", "StreamContext")) or site.is_import:
            return
        call = site.call
        if needs_cuda(context, site.reference) or is_annotation(site.reference):
            return
        if head in ("stream", "StreamContext"):
            if (
                call is None
                or is_decorator(call.node)
                or call.node.parent is None
                or call.node.parent.type == "expression_statement"
            ):
                yield self._manual(site, site.reference)
                return
            new, edits = null_conditional(context, call)
            yield context.finding(self, call.node, f"raises where there is no CUDA; write `{new}`", Safety.SAFE, edits)
            return
        if call is None or head not in ("Stream", "current_stream", "default_stream", "set_stream"):
            yield self._manual(site, site.reference)
            return
        if self._in_stream_context(site, call.node):
            return
        stated = guarded_statement(context, call.node) if self._is_object(call.node) else None
        made = stated if stated is not None else self._given(site, call) or self._made(site, call)
        if made is None:
            yield self._manual(site, call.node)
            return
        yield context.finding(
            self,
            call.node,
            f"`{text(call.node)}` raises where there is no CUDA: ask for it, and wait for it, only where CUDA is",
            Safety.SAFE,
            made,
        )

    def _manual(self, site: Site, node: Node) -> Finding:
        return site.context.finding(
            self,
            node,
            f"`{text(node)}` exists on CUDA only: make it `None` elsewhere, and put each use of it behind `if torch.cuda.is_available():`",
            Safety.MANUAL,
        )

    def _is_object(self, node: Node) -> bool:
        """Whether the stream itself is used, and no raw handle (`.cuda_stream`) that some kernel needs."""
        attribute = (
            field(node.parent, "attribute") if node.parent is not None and node.parent.type == "attribute" else None
        )
        return attribute is None or text(attribute) in STREAM_METHODS

    def _given(self, site: Site, call: Call) -> list[Edit] | None:
        """`event.record(torch.cuda.current_stream())`: no stream is given where there is none."""
        arguments = call.node.parent
        outer = arguments.parent if arguments is not None and arguments.type == "argument_list" else None
        if outer is None or outer.type != "call" or Call(outer).method not in ("record", "wait"):
            return None
        torch = site.context.placement.torch_name(call.node)
        new = f"{text(call.node)} if {torch.text}.cuda.is_available() else None"
        return [site.module.replace(call.node, new), *torch.edits]

    def _in_stream_context(self, site: Site, node: Node) -> bool:
        """Whether the stream is made for `torch.cuda.stream(...)`, which is guarded as a whole."""
        for parent in ancestors(node):
            if parent.type == "call" and member(site.module.qualname(Call(parent).function)) in (
                "stream",
                "StreamContext",
            ):
                return True
        return False

    def _made(self, site: Site, call: Call) -> list[Edit] | None:
        """Edits for `target = torch.cuda.Stream()` and all that is asked of the target; None when some of it cannot be seen."""
        context, parent = site.context, call.node.parent
        if parent is None or parent.type != "assignment":
            return None
        left = field(parent, "left")
        if left is None or left.type not in ("identifier", "attribute") or not same(field(parent, "right"), call.node):
            return None
        torch = context.placement.torch_name(call.node)
        edits = [
            context.module.replace(call.node, f"{text(call.node)} if {torch.text}.cuda.is_available() else None"),
            *torch.edits,
        ]
        for match in re.finditer(rb"(?<![\w.])" + re.escape(text(left).encode()) + rb"\.(\w+)", context.module.data):
            leaf = context.module.leaf(match.start(1), match.end(1))
            if leaf is None or leaf.type != "identifier" or needs_cuda(context, leaf):
                continue
            guarded = guarded_statement(context, leaf) if text(leaf) in STREAM_METHODS else None
            if guarded is None:
                return None
            edits += guarded
        return edits

    def _method(self, site: Site) -> Iterator[Finding]:
        """`s.wait_stream(t)`, `x.record_stream(s)` where the file's streams are CUDA's."""
        call, data = site.method_call, site.module.data
        if call is None or not _CUDA_STREAMS.search(data) or needs_cuda(site.context, call.node):
            return
        if re.search(r"\b(?:xpu|npu|accelerator|device_module)\b", text(call.node)):
            return
        edits = guarded_statement(site.context, call.node)
        yield site.context.finding(
            self,
            call.node,
            f"`{text(call.node)[:60]}` orders CUDA streams: ask for it only where CUDA is",
            Safety.SAFE if edits else Safety.MANUAL,
            edits or [],
        )


_CUDA_STREAMS = re.compile(rb"cuda\.\w*[sS]tream\b|from torch\.cuda(?:\.streams)? import [^\n]*[sS]tream")


class CudaEvent(PythonRule):
    """`torch.cuda.Event(enable_timing=True)` times work on CUDA, and raises where there is no CUDA.

    Instead: where there is no CUDA, an object with the same methods that waits for the device and reads the host's clock.
    `torch.Event` is no way out: it cannot time on a CPU.
    """

    code = "ADH02"
    name = "cuda-event"
    summary = "time is taken by CUDA events"
    anchors = ("cuda",)
    examples = (
        Example(
            "two events",
            "import torch\nstart = torch.cuda.Event(enable_timing=True)\nend = torch.cuda.Event(enable_timing=True)\n",
            "import torch\nstart = torch.cuda.Event(enable_timing=True) if torch.cuda.is_available() else HostEvent()\n"
            "end = torch.cuda.Event(enable_timing=True) if torch.cuda.is_available() else HostEvent()\n",
        ),
        Example(
            "a list",
            "import torch\nevents = [torch.cuda.Event(enable_timing=True) for _ in range(3)]\n",
            "import torch\nevents = [(torch.cuda.Event(enable_timing=True) if torch.cuda.is_available() else HostEvent()) for _ in range(3)]\n",
        ),
        Example("the class itself", "import torch\nmake = torch.cuda.Event\n"),
    )
    leaves = (
        Leave("import threading\ne = threading.Event()\n", "not torch"),
        Leave("import torch\nif x.is_cuda:\n    e = torch.cuda.Event()\n", "asked only of CUDA"),
        Leave("import torch\ndef f(e: torch.cuda.Event) -> None: ...\n", "a type"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        context, call = site.context, site.call
        if (
            member(site.qualname) != "Event"
            or site.is_import
            or needs_cuda(context, site.reference)
            or is_annotation(site.reference)
        ):
            return
        if call is None or is_decorator(call.node):
            yield context.finding(
                self,
                site.reference,
                "the class exists on CUDA only: hand on a function that makes a timer for the device",
                Safety.MANUAL,
            )
            return
        torch = context.placement.torch_name(call.node)
        name, edits = self._host_event(context, torch.text)
        new = f"{text(call.node)} if {torch.text}.cuda.is_available() else {name}()"
        if not is_free(call.node):
            new = f"({new})"
        yield context.finding(
            self,
            call.node,
            f"raises where there is no CUDA; write `{new}`, with a class `{name}` that reads the host's clock",
            Safety.SAFE,
            [context.module.replace(call.node, new), *torch.edits, *edits],
        )

    def _host_event(self, context: Context, torch: str) -> tuple[str, list[Edit]]:
        """The name of the stand-in, and the edit that defines it unless an earlier fix did."""
        module, unit = context.module, context.module.indent_unit
        name = "HostEvent"
        for binding in module.names.bindings(name):
            if binding.kind == "class" and binding.value is not None and "elapsed_time" in text(binding.value):
                return name, []
        if not module.names.is_free(name):
            name = "HostClockEvent"
        wait = ""
        if context.target.has_accelerator:
            wait = f"{unit * 2}if {torch}.accelerator.is_available():\n{unit * 3}{torch}.accelerator.synchronize()\n"
        definition = (
            f"class {name}:\n"
            f'{unit}"""Stands in for torch.cuda.Event where there is no CUDA: waits for the device and reads the clock."""\n\n'
            f"{unit}def record(self, stream=None):\n{wait}{unit * 2}self.time = time.perf_counter()\n\n"
            f"{unit}def synchronize(self):\n{unit * 2}pass\n\n"
            f"{unit}def wait(self, stream=None):\n{unit * 2}pass\n\n"
            f"{unit}def query(self):\n{unit * 2}return True\n\n"
            f"{unit}def elapsed_time(self, end_event):\n{unit * 2}return 1000 * (end_event.time - self.time)\n"
        )
        clock = imported(context, module.root.children[-1], "time")
        definition = definition.replace("time.perf_counter", f"{clock.text}.perf_counter")
        edits = [context.placement.insertion(definition), *clock.edits]
        return name, edits
