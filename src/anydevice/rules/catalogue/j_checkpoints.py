"""Group J, first part: checkpoints loaded without saying where to."""

from __future__ import annotations

from collections.abc import Iterator

from anydevice.finding import Finding, Safety
from anydevice.rules.loaded import bound_device, uses_of
from anydevice.rules.placement import Expression
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Call
from anydevice.source.syntax import text

# The functions that put tensors back where they were saved, and the position of their `map_location`.
LOADERS = {
    "torch.load": 1,
    "torch.serialization.load": 1,
    "torch.jit.load": 1,
    "torch.hub.load_state_dict_from_url": 2,
    "torch.utils.model_zoo.load_url": 2,
    "torch.utils.model_zoo.load_state_dict_from_url": 2,
    "torchvision.models.utils.load_state_dict_from_url": 2,
    "torchvision._internally_replaced_utils.load_state_dict_from_url": 2,
}
ANCHORS = ("load", "load_url", "load_state_dict_from_url")


def loader(site: Site) -> Call | None:
    """The call, when the site is one of `LOADERS`, called."""
    return site.call if site.call is not None and not site.is_import and _loads(site) else None


def _loads(site: Site) -> bool:
    name = site.qualname
    if name is not None:
        return name in LOADERS
    if site.word == "load" or site.reference.type != "identifier":
        return False
    # imported from one of two places, whichever there is
    targets = [b.target or "" for b in site.module.names.lookup(site.reference)]
    return bool(targets) and all(target in LOADERS for target in targets)


class LoadWithoutMapLocation(PythonRule):
    """`torch.load(path)` puts tensors back on the device that they were saved from, and raises where that is missing.

    Instead: `map_location`. What is copied into parameters, or moved, may come from the device at hand or from the CPU.
    What is used as it comes stays where it was on a machine with CUDA, and comes to the CPU elsewhere:
    `map_location=None if torch.cuda.is_available() else "cpu"`.

    References: https://docs.pytorch.org/docs/stable/generated/torch.load.html
    """

    code = "ADJ01"
    name = "load-without-map-location"
    summary = "tensors are loaded to the device that they were saved from"
    anchors = ANCHORS
    needs = ("torch",)
    examples = (
        Example(
            "a state",
            "import torch\nnet.load_state_dict(torch.load(path))\n",
            'import torch\nnet.load_state_dict(torch.load(path, map_location="cpu"))\n',
        ),
        Example(
            "a state, with a device at hand",
            'import torch\ndevice = torch.device("cuda")\nckpt = torch.load(path)\nnet.load_state_dict(ckpt["net"])\nepoch = ckpt["epoch"]\n',
            'import torch\ndevice = torch.device("cuda")\nckpt = torch.load(path, map_location=device)\nnet.load_state_dict(ckpt["net"])\n'
            'epoch = ckpt["epoch"]\n',
        ),
        Example(
            "an optimizer's state, whose counters stay on the host",
            'import torch\ndef resume(path, device):\n    ckpt = torch.load(path)\n    net.load_state_dict(ckpt["net"])\n'
            '    opt.load_state_dict(ckpt["opt"])\n    net.to(device)\n',
            'import torch\ndef resume(path, device):\n    ckpt = torch.load(path, map_location="cpu")\n    net.load_state_dict(ckpt["net"])\n'
            '    opt.load_state_dict(ckpt["opt"])\n    net.to(device)\n',
        ),
        Example(
            "moved at once",
            "import torch\nx = torch.load(path).to(where)\n",
            'import torch\nx = torch.load(path, map_location="cpu").to(where)\n',
        ),
        Example(
            "used as it comes",
            "import torch\nself.data = torch.load(path)\n",
            'import torch\nself.data = torch.load(path, map_location=None if torch.cuda.is_available() else "cpu")\n',
        ),
        Example(
            "a whole model",
            'import torch\ndevice = torch.device("cuda")\nnet = torch.load(path)\nnet.eval()\ny = net(x)\n',
            'import torch\ndevice = torch.device("cuda")\nnet = torch.load(path, map_location=None if torch.cuda.is_available() else device)\n'
            "net.eval()\ny = net(x)\n",
        ),
        Example(
            "published weights",
            "import torch\nfrom torch.utils import model_zoo\nnet.load_state_dict(model_zoo.load_url(urls['r50']))\n",
            "import torch\nfrom torch.utils import model_zoo\nnet.load_state_dict(model_zoo.load_url(urls['r50'], map_location=\"cpu\"))\n",
        ),
        Example(
            "None",
            "import torch\nnet.load_state_dict(torch.load(path, None))\n",
            'import torch\nnet.load_state_dict(torch.load(path, "cpu"))\n',
        ),
        Example("an exported program", "import torch\nep = torch.export.load(path)\n"),
    )
    leaves = (
        Leave('import torch\nx = torch.load(path, "cpu")\n', "said by position"),
        Leave("import torch\nx = torch.load(path, map_location=lambda storage, loc: storage)\n", "to the CPU already"),
        Leave("import torch\nx = torch.load(path, **kwargs)\n", "it may be in there"),
        Leave("import json\nx = json.load(f)\n", "not torch"),
        Leave("import numpy as np\nx = np.load(f)\n", "not torch"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        context, name = site.context, site.qualname
        if name == "torch.export.load" and site.call is not None:
            message = (
                "an exported program holds the device that it was exported on, and this function has no `map_location`: "
                "move it with `torch.export.passes.move_to_device_pass(program, device)`"
            )
            yield context.finding(self, site.call.node, message, Safety.MANUAL)
            return
        call = loader(site)
        if call is None or call.has_star:
            return
        position = LOADERS.get(name or "", 2)
        given = call.argument(position, "map_location")
        if given is not None and given.value.type != "none":
            return
        where, why = _location(context, call, name or "")
        if given is not None:
            edits = [site.module.replace(given.value, where.text)]
        else:
            edits = [site.module.insert(*call.insertion(f"map_location={where.text}"))]
        message = f"`{text(call.function)}` puts tensors back on the device they were saved from; write `map_location={where.text}`{why}"
        if name == "torch.jit.load":
            message += " (devices that the script itself names stay as they were traced)"
        yield context.finding(self, call.node, message, Safety.SAFE, [*edits, *where.edits])


def _location(context: Context, call: Call, name: str) -> tuple[Expression, str]:
    """What to give as `map_location`, and why."""
    uses, device = uses_of(context, call.node), bound_device(context, call.node)
    published = name.rpartition(".")[2] in ("load_url", "load_state_dict_from_url")
    if uses.host and not uses.is_module and (uses.placed or published):
        return Expression('"cpu"'), ", since counters of optimizers and states of generators belong there"
    if uses.placed or published:
        return Expression(device or '"cpu"'), ""
    torch = context.placement.torch_name(call.node)
    other = '"cpu"'
    if uses.is_module or name == "torch.jit.load":
        other = device or other
        edits = torch.edits
        if device is None and _has_cuda(context):
            made = context.placement.device(call.node)
            other, edits = made.expr, (*made.edits, *torch.edits)
        return Expression(f"None if {torch.text}.cuda.is_available() else {other}", edits), ""
    return Expression(f"None if {torch.text}.cuda.is_available() else {other}", torch.edits), ""


def _has_cuda(context: Context) -> bool:
    """Whether the file moves anything to CUDA, so that it has, or gets, a device."""
    data = context.module.data
    return b".cuda(" in data or b'"cuda' in data or b"'cuda" in data
