"""Group K: pinned memory, and data decoded on the GPU."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.amp import device_there, safety_at
from anydevice.rules.cuda_calls import is_free
from anydevice.rules.guards import needs_accelerator, needs_cuda
from anydevice.rules.placement import Expression
from anydevice.rules.receiver import FOREIGN
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, field, same, string_value, strip_parens, text

_LONG = 40  # a longer expression is not written twice, but handed to a function


def pinned(context: Context, node: Node) -> Expression:
    """A condition under which memory is worth pinning, and can be: CUDA is there, or was chosen."""
    device = device_there(context, node)
    if not device.edits:
        return Expression(f'{device.type} == "cuda"')
    torch = context.placement.torch_name(node)
    return Expression(f"{torch.text}.cuda.is_available()", torch.edits)


class UnguardedPinMemory(PythonRule):
    """`pin_memory=True` asks for pinned memory on every machine, and `x.pin_memory()` needs it.

    Without an accelerator a DataLoader only warns, but `x.pin_memory()` and `torch.empty(..., pin_memory=True)` raise. On MPS
    pinning does not work. Instead: pin where the device is CUDA: there nothing changes.

    References: https://docs.pytorch.org/docs/stable/data.html#memory-pinning
    """

    code = "ADK01"
    name = "unguarded-pin-memory"
    summary = "memory is pinned whatever the device"
    anchors = ("pin_memory", "DataLoader")
    needs = ("torch",)
    text_anchors = ("pin_memory",)
    examples = (
        Example(
            "a loader",
            "import torch\ndevice = torch.device('cuda')\ndl = DataLoader(ds, batch_size=4, pin_memory=True)\n",
            "import torch\ndevice = torch.device('cuda')\ndl = DataLoader(ds, batch_size=4, pin_memory=device.type == \"cuda\")\n",
        ),
        Example(
            "no device at hand",
            "import torch\ndl = torch.utils.data.DataLoader(ds, pin_memory=True)\n",
            "import torch\ndl = torch.utils.data.DataLoader(ds, pin_memory=torch.cuda.is_available())\n",
        ),
        Example(
            "by position",
            "import torch\nfrom torch.utils.data import DataLoader\ndl = DataLoader(ds, 4, True, None, None, 2, None, True)\n",
            "import torch\nfrom torch.utils.data import DataLoader\ndl = DataLoader(ds, 4, True, None, None, 2, None, torch.cuda.is_available())\n",
        ),
        Example(
            "arguments in a dict",
            'import torch\nkw = {"num_workers": 2, "pin_memory": True}\nkw["pin_memory"] = True\nkw.update(dict(pin_memory=True))\n',
            'import torch\nkw = {"num_workers": 2, "pin_memory": torch.cuda.is_available()}\nkw["pin_memory"] = torch.cuda.is_available()\n'
            "kw.update(dict(pin_memory=torch.cuda.is_available()))\n",
        ),
        Example(
            "a default",
            "import torch\ndef loader(ds, pin_memory=True):\n    pass\n",
            "import torch\ndef loader(ds, pin_memory=torch.cuda.is_available()):\n    pass\n",
        ),
        Example(
            "a tensor",
            "import torch\nx = x.pin_memory().to(d, non_blocking=True)\n",
            "import torch\nx = (x.pin_memory() if torch.cuda.is_available() else x).to(d, non_blocking=True)\n",
        ),
        Example(
            "a longer expression",
            "import torch\nx = torch.from_numpy(np.ascontiguousarray(batch[i])).pin_memory()\n",
            "import torch\nx = pinned(torch.from_numpy(np.ascontiguousarray(batch[i])))\n",
        ),
        Example(
            "a factory",
            "import torch\nx = torch.empty(4, pin_memory=True)\n",
            "import torch\nx = torch.empty(4, pin_memory=torch.cuda.is_available())\n",
        ),
    )
    leaves = (
        Leave("import torch\ndl = DataLoader(ds, pin_memory=False)\n", "off"),
        Leave("import torch\ndl = DataLoader(ds, pin_memory=args.pin)\n", "an option"),
        Leave("import torch\nkw = {'pin_memory': True} if torch.cuda.is_available() else {}\n", "asked for"),
        Leave("import torch\nclass B:\n    def pin_memory(self):\n        self.x = self.x.pin_memory()\n        return self\n", "only called where memory is pinned"),
        Leave("import torch\nif device.type == 'cuda':\n    x = x.pin_memory()\n", "asked for"),
        Leave("import torch\nfrom . import tools\ntools.pin_memory(x, 4)\n", "a function of a module"),
        Leave("import torch\nfrom mxnet.gluon.data import DataLoader\nd = DataLoader(ds, pin_memory=True)\n", "not torch's"),
    )  # fmt: skip

    def check(self, site: Site) -> Iterator[Finding]:
        if b"torch" not in site.module.data or site.is_import:
            return
        if site.word == "DataLoader":
            call = site.call
            value = call.positional[7].value if call is not None and len(call.positional) > 7 else None
            node = value
        elif site.in_string:
            node, value = _entry(site.leaf)
        elif site.method_call is not None:
            yield from self._method(site, site.method_call)
            return
        else:
            node, value = _given(site)
        if node is None or value is None or value.type != "true" or needs_accelerator(site.context, value):
            return
        if _is_foreign(site, value):
            return
        condition = pinned(site.context, value)
        raises = "raises" if _is_factory(site, value) else "warns"
        message = f"pins memory on every machine, and {raises} where there is no accelerator; write `{condition.text}`"
        edits = [site.module.replace(value, condition.text), *condition.edits]
        yield site.context.finding(self, node, message, safety_at(site.context, value), edits)

    def _method(self, site: Site, call: Call) -> Iterator[Finding]:
        context, module = site.context, site.module
        receiver = call.receiver
        if (
            receiver is None
            or needs_cuda(context, call.node)
            or module.function_name(call.node) in ("pin_memory", "pinned")
        ):
            return
        if _is_asked(call.node) or any(b.kind == "import" for b in module.names.lookup(receiver)):
            return
        message = "pinning raises where there is no accelerator; write "
        if call.arguments:
            yield context.finding(self, call.node, f"{message}it behind `if torch.cuda.is_available():`", Safety.MANUAL)
            return
        name = text(receiver)
        if len(name) > _LONG or "(" in name:
            helper = _helper(context)
            new = f"{helper.text}({name})"
            edits: list[Edit] = [
                module.insert(receiver.start_byte, f"{helper.text}("),
                module.edit(receiver.end_byte, call.node.end_byte, ")"),
                *helper.edits,
            ]
        else:
            condition = pinned(context, call.node)
            new = f"{name}.pin_memory() if {condition.text} else {name}"
            new = new if is_free(call.node) else f"({new})"
            edits = [module.replace(call.node, new), *condition.edits]
        shown = " ".join(new.split())
        yield context.finding(self, call.node, f"{message}`{shown}`", safety_at(context, call.node), edits)


def _given(site: Site) -> tuple[Node | None, Node | None]:
    """(node, value) of `pin_memory=True` in a call, as a default, or in an assignment."""
    if site.keyword is not None:
        return site.keyword.node, site.keyword.value
    parent = site.leaf.parent
    if parent is not None and parent.type in ("default_parameter", "typed_default_parameter"):
        return (parent, field(parent, "value")) if same(field(parent, "name"), site.leaf) else (None, None)
    target = parent if parent is not None and parent.type == "attribute" else site.leaf
    holder = target.parent
    if holder is not None and holder.type == "assignment" and same(field(holder, "left"), target):
        return holder, field(holder, "right")
    return None, None


def _entry(string: Node) -> tuple[Node | None, Node | None]:
    """(node, value) of `{"pin_memory": True}` or `kwargs["pin_memory"] = True`."""
    parent = string.parent
    if string_value(string) != "pin_memory" or parent is None:
        return None, None
    if parent.type == "pair" and same(field(parent, "key"), string):
        return parent, field(parent, "value")
    holder = parent.parent
    if parent.type == "subscript" and holder is not None and holder.type == "assignment":
        return (holder, field(holder, "right")) if same(field(holder, "left"), parent) else (None, None)
    return None, None


def _is_foreign(site: Site, value: Node) -> bool:
    call = next((a for a in ancestors(value) if a.type == "call"), None)
    name = site.module.qualname(field(call, "function")) if call is not None else None
    return name is not None and name.split(".")[0] in FOREIGN


def _is_factory(site: Site, value: Node) -> bool:
    call = next((a for a in ancestors(value) if a.type == "call"), None)
    name = site.module.qualname(field(call, "function")) if call is not None else None
    return name is not None and name.startswith("torch.") and not name.endswith("DataLoader")


def _is_asked(node: Node) -> bool:
    """Whether the call stands in a conditional expression that asks for CUDA."""
    parent = node.parent
    while parent is not None and parent.type == "parenthesized_expression":
        parent = parent.parent
    if parent is None or parent.type != "conditional_expression":
        return False
    condition = strip_parens([c for c in parent.named_children if c.type != "comment"][1])
    return "cuda" in text(condition)


def _helper(context: Context) -> Expression:
    """The function that pins what it is given where that works, and the edit that defines it where it is missing."""
    module, unit = context.module, context.module.indent_unit
    torch = context.placement.torch
    name = "pinned"
    for binding in module.names.bindings(name):
        if binding.kind == "function" and binding.value is not None and ".pin_memory() if" in text(binding.value):
            return Expression(name)
    if not module.names.is_free(name):
        name = "pinned_where_possible"
    definition = f"def {name}(tensor):\n{unit}return tensor.pin_memory() if {torch}.cuda.is_available() else tensor\n"
    return Expression(name, (context.placement.insertion(definition),))


class DecodedOnCuda(PythonRule):
    """Loaders that decode on NVIDIA's hardware: `decord.gpu(0)`, `cv2.cuda`, NVIDIA DALI, PyNvVideoCodec.

    Instead: the same library's CPU path, or torchvision's and torchcodec's decoders.
    """

    code = "ADK02"
    name = "decoded-on-cuda"
    summary = "data is decoded or transformed by NVIDIA's hardware"
    needs = (r"\b(?:decord|cv2|nvidia|PyNv\w+|hw_accel)\b",)
    anchors = ("decord", "cuda", "cuda_GpuMat", "cudacodec", "nvidia", "PyNvCodec", "PyNvVideoCodec", "hw_accel")
    _ADVICE = {
        "cv2.cuda": "use the functions of `cv2` of the same name, or torchvision.transforms, where `cv2.cuda.getCudaEnabledDeviceCount()` is 0",
        "cv2.cudacodec": "read with `cv2.VideoCapture`",
        "nvidia.dali": "load with torch.utils.data and torchvision.transforms where there is no CUDA",
        "PyNvCodec": "decode with torchcodec or PyAV where there is no CUDA",
        "PyNvVideoCodec": "decode with torchcodec or PyAV where there is no CUDA",
    }
    examples = (
        Example(
            "a reader's context",
            "import decord\nimport torch\nvr = decord.VideoReader(path, ctx=decord.gpu(0))\n",
            "import decord\nimport torch\nvr = decord.VideoReader(path, ctx=decord.gpu(0) if torch.cuda.is_available() else decord.cpu(0))\n",
        ),
        Example("OpenCV", "import cv2\nimport torch\ng = cv2.cuda.GpuMat()\n"),
        Example("OpenCV's older name", "import cv2\nimport torch\ng = cv2.cuda_GpuMat()\n"),
        Example("DALI", "import torch\nimport nvidia.dali.fn as fn\nx = fn.decoders.image(j, device='mixed')\n"),
        Example("FFmpeg", "import torch\ns = StreamReader(path)\ns.add_video_stream(8, hw_accel='cuda:0')\n"),
    )
    leaves = (
        Leave("import decord\nimport torch\nvr = decord.VideoReader(path, ctx=decord.cpu(0))\n", "the CPU"),
        Leave("import cv2\nimport torch\nx = cv2.imread(path)\n", "the CPU"),
        Leave("import torch\nif args.gpu(0):\n    pass\n", "not decord's"),
        Leave("import cv2\nimport torch\nif cv2.cuda.getCudaEnabledDeviceCount():\n    f()\n", "asks for CUDA"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        context = site.context
        if site.is_import:
            return
        if site.word == "hw_accel":
            value = string_value(site.keyword.value) if site.keyword is not None else None
            if site.keyword is not None and (value or "").startswith("cuda"):
                message = "decodes on NVIDIA's hardware: leave `hw_accel` out where there is no CUDA"
                yield context.finding(self, site.keyword.node, message, Safety.MANUAL)
            return
        name = site.qualname or ""
        if name in ("decord.gpu", "decord.ndarray.gpu") and site.call is not None:
            yield from self._decord(site, site.call)
            return
        for prefix, advice in self._ADVICE.items():
            if name.startswith((f"{prefix}.", f"{prefix}_")) and not name.endswith("getCudaEnabledDeviceCount"):
                if needs_cuda(context, site.reference):
                    return
                node = site.call.node if site.call is not None else site.reference
                yield context.finding(
                    self, node, f"`{text(site.reference)}` runs on NVIDIA's GPUs only: {advice}", Safety.MANUAL
                )
                return

    def _decord(self, site: Site, call: Call) -> Iterator[Finding]:
        context, module = site.context, site.module
        if needs_cuda(context, call.node):
            return
        torch = context.placement.torch_name(call.node)
        cpu = text(call.function)[: -len("gpu")] + "cpu"
        edits = list(torch.edits)
        if call.function.type == "identifier":
            bound = next((b for b in module.names.imports if b.target == "decord.cpu"), None)
            if bound is not None:
                cpu = text(bound.node)
            else:
                holder = next(b for b in module.names.lookup(call.function) if b.kind == "import")
                edits.append(module.insert(holder.node.end_byte, ", cpu"))
                cpu = "cpu"
        new = f"{text(call.node)} if {torch.text}.cuda.is_available() else {cpu}(0)"
        new = new if is_free(call.node) else f"({new})"
        message = f"decodes on NVIDIA's hardware; write `{new}`"
        yield context.finding(self, call.node, message, Safety.SAFE, [module.replace(call.node, new), *edits])
