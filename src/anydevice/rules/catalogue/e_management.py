"""Group E, first part: synchronising, choosing and counting devices through torch.cuda."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.cuda_api import UTILITIES, Fate, lookup, member
from anydevice.rules.cuda_calls import (
    Written,
    is_decorator,
    rewrite,
    set_device,
    written,
)
from anydevice.rules.guards import needs_accelerator, needs_cuda
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, field, same, text

_GUARD = "if torch.accelerator.is_available():\n    "


def explain(form: Written, call: Call) -> str:
    """What to write, in words."""
    new = form.text(call)
    return f"write `{new}`" if form.condition is None else f"write `{new}` behind `if {form.condition.text}`"


class UnguardedCudaUtility(PythonRule):
    """`torch.cuda.synchronize()` and its like raise where there is no CUDA, and do not reach other accelerators.

    Instead: `torch.accelerator.synchronize()` behind `torch.accelerator.is_available()` (it raises on a machine without
    any), so that timings hold on MPS and XPU too; `torch.get_device_module().empty_cache()`. What only CUDA has
    (`ipc_collect`, `init`) is asked only where CUDA is.

    References: https://docs.pytorch.org/docs/stable/accelerator.html
    """

    code = "ADE01"
    name = "unguarded-cuda-utility"
    summary = "a torch.cuda call that fails or does nothing on other devices"
    anchors = ("cuda", "synchronize", "empty_cache", "ipc_collect")
    examples = (
        Example(
            "a statement",
            "import torch\ntorch.cuda.synchronize()\n",
            f"import torch\n{_GUARD}torch.accelerator.synchronize()\n",
        ),
        Example(
            "two beside each other",
            "import torch\ntorch.cuda.synchronize()\ntorch.cuda.empty_cache()\n",
            f"import torch\n{_GUARD}torch.accelerator.synchronize()\n    torch.get_device_module(torch.accelerator.current_accelerator()).empty_cache()\n",
        ),
        Example(
            "the newest torch",
            "import torch\ntorch.cuda.empty_cache()\n",
            f"import torch\n{_GUARD}torch.accelerator.empty_cache()\n",
            torch="2.13",
        ),
        Example(
            "a device",
            "import torch\ntorch.cuda.synchronize(device=dev)\n",
            f"import torch\n{_GUARD}torch.accelerator.synchronize(dev)\n",
        ),
        Example(
            "in a lambda",
            "import torch\nwait = lambda: torch.cuda.synchronize()\n",
            "import torch\nwait = lambda: (torch.accelerator.synchronize() if torch.accelerator.is_available() else None)\n",
        ),
        Example(
            "behind a guard",
            "import torch\nif torch.accelerator.is_available():\n    torch.cuda.synchronize()\n",
            "import torch\nif torch.accelerator.is_available():\n    torch.accelerator.synchronize()\n",
        ),
        Example(
            "CUDA's own",
            "import torch\ntorch.cuda.ipc_collect()\n",
            "import torch\nif torch.cuda.is_available():\n    torch.cuda.ipc_collect()\n",
        ),
        Example(
            "an old torch",
            "import torch\ntorch.cuda.synchronize()\n",
            "import torch\nif torch.cuda.is_available():\n    torch.cuda.synchronize()\n",
            torch="1.8",
        ),
        Example(
            "an alias",
            "import torch\nimport torch.cuda as tc\ntc.synchronize()\n",
            f"import torch\nimport torch.cuda as tc\n{_GUARD}torch.accelerator.synchronize()\n",
        ),
        Example(
            "handed on behind a question",
            "import torch\nwait = torch.cuda.synchronize if torch.cuda.is_available() else print\n",
            "import torch\nwait = torch.accelerator.synchronize if torch.cuda.is_available() else print\n",
        ),
        Example("handed on", "import torch\ntimer = Timer(torch.cuda.synchronize)\n"),
    )
    leaves = (
        Leave("import torch\nif torch.cuda.is_available():\n    torch.cuda.ipc_collect()\n", "guarded, and CUDA's own"),
        Leave("import cupy\ncupy.cuda.synchronize()\n", "cupy is not torch"),
        Leave("import torch\nif torch.accelerator.is_available():\n    torch.accelerator.synchronize()\n", "portable"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        name = member(site.qualname)
        if name not in UTILITIES or site.is_import:
            return
        context, call = site.context, site.call
        api = lookup(name)
        if call is None:
            yield from self._handed_on(site, name)
            return
        form = written(context, call, name)
        if form is None or api is None:
            return
        safety = Safety.MANUAL if context.is_scripted(call.node) or is_decorator(call.node) else Safety.SAFE
        reason = "does nothing on other accelerators" if name == "empty_cache" else "raises where there is no CUDA"
        yield context.finding(
            self,
            call.node,
            f"`{text(call.node)[:60]}` {reason}; {explain(form, call)}",
            safety,
            rewrite(context, call, form, api.otherwise),
        )

    def _handed_on(self, site: Site, name: str) -> Iterator[Finding]:
        """The function itself: `wait = torch.cuda.synchronize if torch.cuda.is_available() else None`."""
        context, api = site.context, lookup(name)
        accelerated = api is not None and api.fate is Fate.ACCELERATOR and context.target.has_accelerator
        if accelerated and api is not None and needs_accelerator(context, site.reference):
            torch = context.placement.torch_name(site.reference)
            new = f"{torch.text}.accelerator.{api.counterpart}"
            edits = [site.module.replace(site.reference, new), *torch.edits]
            yield context.finding(self, site.reference, f"knows CUDA only; write `{new}`", Safety.SAFE, edits)
        elif not needs_cuda(context, site.reference):
            yield context.finding(self, site.reference, handed_on(name), Safety.MANUAL)


def handed_on(name: str) -> str:
    api = lookup(name)
    target = (
        f"torch.accelerator.{api.counterpart}"
        if api is not None and api.fate is Fate.ACCELERATOR
        else f"torch.cuda.{name}"
    )
    return (
        f"`torch.cuda.{name}` itself is handed on and fails where it is called without CUDA: hand on a function that "
        f"calls `{target}()` where there is a device, and does nothing elsewhere"
    )


class CudaSetDevice(PythonRule):
    """`torch.cuda.set_device(local_rank)` raises where there is no CUDA.

    Instead: `torch.accelerator.set_device_index(local_rank)` behind `torch.accelerator.is_available()`. It wants an
    index or a device that has one.
    """

    code = "ADE02"
    name = "cuda-set-device"
    summary = "the current CUDA device is set"
    anchors = ("set_device",)
    examples = (
        Example(
            "a rank",
            "import torch\ntorch.cuda.set_device(local_rank)\n",
            f"import torch\n{_GUARD}torch.accelerator.set_device_index(local_rank)\n",
        ),
        Example(
            "a name",
            'import torch\ntorch.cuda.set_device("cuda:1")\n',
            f"import torch\n{_GUARD}torch.accelerator.set_device_index(1)\n",
        ),
        Example(
            "a device",
            'import torch\nd = torch.device("cuda:0")\ntorch.cuda.set_device(d)\n',
            f'import torch\nd = torch.device("cuda:0")\n{_GUARD}torch.accelerator.set_device_index(d.index or 0)\n',
        ),
        Example(
            "a device by name",
            "import torch\nd = f'cuda:{rank}'\ntorch.cuda.set_device(d)\n",
            f"import torch\nd = f'cuda:{{rank}}'\n{_GUARD}torch.accelerator.set_device_index(torch.device(d).index or 0)\n",
        ),
        Example(
            "behind a guard",
            "import torch\nif torch.cuda.is_available():\n    torch.cuda.set_device(self.opt.gpu_ids[0])\n",
            "import torch\nif torch.cuda.is_available():\n    torch.accelerator.set_device_index(self.opt.gpu_ids[0])\n",
        ),
        Example(
            "an old torch",
            "import torch\ntorch.cuda.set_device(args.gpu)\n",
            "import torch\nif torch.cuda.is_available():\n    torch.cuda.set_device(args.gpu)\n",
            torch="1.8",
        ),
    )
    leaves = (
        Leave("model.set_device(0)\n", "a method of one's own"),
        Leave("import cupy\ncupy.cuda.set_device(0)\n", "cupy is not torch"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if member(site.qualname) != "set_device" or site.is_import:
            return
        context, call = site.context, site.call
        if call is None:
            yield context.finding(self, site.reference, handed_on("set_device"), Safety.MANUAL)
            return
        form = set_device(context, call)
        if form is None:
            return
        yield context.finding(
            self,
            call.node,
            f"`{text(call.node)[:60]}` raises where there is no CUDA; {explain(form, call)}",
            Safety.SAFE,
            rewrite(context, call, form),
        )


class CudaDeviceCount(PythonRule):
    """`torch.cuda.device_count()` counts no accelerator but CUDA's.

    Instead: `torch.accelerator.device_count()`, which is the same number on a CUDA machine and 0 without an accelerator.
    """

    code = "ADE03"
    name = "cuda-device-count"
    summary = "only CUDA devices are counted"
    anchors = ("device_count",)
    examples = (
        Example(
            "a comparison",
            "import torch\nif torch.cuda.device_count() > 1:\n    model = wrap(model)\n",
            "import torch\nif torch.accelerator.device_count() > 1:\n    model = wrap(model)\n",
        ),
        Example(
            "a world size",
            "import torch\nn = torch.cuda.device_count()\n",
            "import torch\nn = torch.accelerator.device_count()\n",
        ),
        Example(
            "a rank by machine",
            "import torch\ngpu = rank % torch.cuda.device_count()\n",
            "import torch\ngpu = rank % max(1, torch.accelerator.device_count())\n",
        ),
        Example("an assertion", "import torch\nassert torch.cuda.device_count() == 8\n"),
    )
    leaves = (
        Leave(
            "import torch\nfor i in range(torch.cuda.device_count()):\n    print(torch.cuda.get_device_properties(i))\n",
            "the loop is about CUDA devices",
        ),
        Leave("import tensorflow as tf\ntf.device_count()\n", "not torch"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if member(site.qualname) != "device_count" or site.is_import or not site.context.target.has_accelerator:
            return
        context, reference = site.context, site.reference
        if _loops_over_cuda(site, reference):
            return
        torch = context.placement.torch_name(reference)
        edits = [site.module.replace(reference, f"{torch.text}.accelerator.device_count"), *torch.edits]
        if site.call is not None and _divides(site.call.node):
            new = f"max(1, {torch.text}.accelerator.device_count())"
            edits = [site.module.replace(site.call.node, new), *torch.edits]
        asserted = _is_asserted_number(reference)
        message = (
            f"only a machine with exactly this many CUDA devices passes `{text(asserted)}`: check what the program needs"
            if asserted is not None
            else f"counts CUDA devices only; write `{torch.text}.accelerator.device_count()`"
        )
        safety = Safety.MANUAL if asserted is not None or context.is_scripted(reference) else Safety.SAFE
        yield context.finding(self, asserted or reference, message, safety, edits)


def _divides(count: Node) -> bool:
    """Whether something is divided by the number of devices, which is 0 where there is none."""
    division = count.parent
    operator = field(division, "operator") if division is not None and division.type == "binary_operator" else None
    return (
        division is not None
        and operator is not None
        and operator.type in ("%", "/", "//")
        and same(field(division, "right"), count)
        and (field(division, "left") or count).type not in ("string", "concatenated_string")
    )


def _is_asserted_number(reference: Node) -> Node | None:
    """The comparison, when the number of devices is asserted."""
    call = reference.parent
    comparison = call.parent if call is not None else None
    owner = comparison.parent if comparison is not None and comparison.type == "comparison_operator" else None
    operators = comparison is not None and any(child.type == "==" for child in comparison.children)
    return comparison if operators and owner is not None and owner.type == "assert_statement" else None


def _loops_over_cuda(site: Site, reference: Node) -> bool:
    """Whether the count bounds a loop (`for i in range(count)`) that asks CUDA about each device."""
    for parent in ancestors(reference):
        if parent.type in ("for_statement", "list_comprehension", "generator_expression", "dictionary_comprehension"):
            inner = next((child for child in parent.named_children if child.type == "for_in_clause"), parent)
            over, body = field(inner, "right"), field(parent, "body")
            inside = over is not None and over.start_byte <= reference.start_byte < over.end_byte
            return inside and body is not None and "cuda.get_device_" in text(body)
        if parent.type not in ("call", "argument_list", "for_in_clause", "parenthesized_expression"):
            return False
    return False
