"""Group I, third part: autocast's state, apex, and modules made half precision by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.amp import is_cuda_literal, safety_at
from anydevice.rules.guards import needs_accelerator
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.source.calls import Call
from anydevice.source.syntax import text


class CudaAutocastState(PythonRule):
    """`torch.get_autocast_gpu_dtype()` and `torch.is_autocast_enabled()` without a device ask for CUDA's autocast.

    Instead: `torch.get_autocast_dtype(device.type)` and `torch.is_autocast_enabled(device.type)`, since torch 2.4.
    """

    code = "ADI04"
    name = "cuda-autocast-state"
    summary = "asks for or sets CUDA's autocast"
    # The new name, and how many arguments a call of the old form has.
    _NAMES = {
        "torch.get_autocast_gpu_dtype": ("get_autocast_dtype", 0),
        "torch.set_autocast_gpu_dtype": ("set_autocast_dtype", 1),
        "torch.is_autocast_enabled": ("is_autocast_enabled", 0),
        "torch.set_autocast_enabled": ("set_autocast_enabled", 1),
        "torch.get_autocast_dtype": ("get_autocast_dtype", -1),
        "torch.set_autocast_dtype": ("set_autocast_dtype", -1),
        "torch.amp.is_autocast_available": ("is_autocast_available", -1),
        "torch.amp.autocast_mode.is_autocast_available": ("is_autocast_available", -1),
    }
    _PRIVATE = re.compile(r"torch\.cuda\.amp\.(?:common\.|autocast_mode\._cast\Z)")
    anchors = (
        *dict.fromkeys(name.rpartition(".")[2] for name in _NAMES),
        "autocast_mode",
        "amp_definitely_not_available",
    )
    examples = (
        Example(
            "state kept for a checkpoint",
            'import torch\nkw = {"enabled": torch.is_autocast_enabled(), "dtype": torch.get_autocast_gpu_dtype()}\n',
            'import torch\nkw = {"enabled": torch.is_autocast_enabled(device.type), "dtype": torch.get_autocast_dtype(device.type)}\n',
        ),
        Example(
            "setting it",
            "import torch\ntorch.set_autocast_gpu_dtype(torch.bfloat16)\ntorch.set_autocast_enabled(True)\n",
            "import torch\ntorch.set_autocast_dtype(device.type, torch.bfloat16)\ntorch.set_autocast_enabled(device.type, True)\n",
        ),
        Example(
            "a device by name",
            'import torch\nt = torch.get_autocast_dtype("cuda")\n',
            "import torch\nt = torch.get_autocast_dtype(device.type)\n",
        ),
        Example(
            "a private function",
            "import torch\ny = torch.cuda.amp.autocast_mode._cast(x, torch.float16)\n",
        ),
    )
    leaves = (
        Leave("import torch\nt = torch.get_autocast_dtype(x.device.type)\n", "follows the device"),
        Leave('import torch\nt = torch.is_autocast_enabled("cpu")\n', "the CPU's on purpose"),
        Leave("import mine\nt = mine.is_autocast_enabled()\n", "not torch's"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        name = site.qualname or ""
        if site.is_import:
            return
        if self._PRIVATE.match(name):
            advice = (
                "`torch.amp.autocast_mode._cast(value, device.type, dtype)`"
                if "_cast" in name
                else "`torch.accelerator.is_available()`"
            )
            message = f"`{text(site.reference)}` is private and about CUDA; write {advice}"
            yield site.context.finding(self, site.reference, message, Safety.MANUAL)
            return
        new, count = self._NAMES.get(name, ("", 0))
        if new and site.call is not None and site.context.target.has("torch.get_autocast_dtype"):
            yield from self._rewritten(site, site.call, new, count)

    def _rewritten(self, site: Site, call: Call, new: str, count: int) -> Iterator[Finding]:
        context, module = site.context, site.module
        if call.has_star or context.is_scripted(call.node):
            return
        first = call.argument(0, "device_type")
        spelled = first is not None and is_cuda_literal(context, first.value)
        if not spelled and len(call.arguments) != count:
            return
        device = context.placement.device(call.node)
        edits: list[Edit] = list(device.edits)
        if first is not None and spelled:
            edits.append(module.replace(first.value, device.type))
        elif call.arguments:
            edits.append(module.insert(call.arguments[0].node.start_byte, f"{device.type}, "))
        else:
            edits.append(module.insert(call.argument_list.start_byte + 1, device.type))
        old = text(call.function)
        head, dot, last = old.rpartition(".")
        if last != new:
            if not dot:  # imported by name: the new name is reached through torch
                torch = context.placement.torch_name(call.node)
                head, dot = torch.text, "."
                edits += torch.edits
            edits.append(module.replace(call.function, f"{head}{dot}{new}"))
        message = f"`{old}` is about CUDA's autocast; write `{new}({device.type}{', ...' if count > 0 else ''})`"
        yield context.finding(self, call.node, message, safety_at(context, call.node), edits)


class ApexAmp(PythonRule):
    """`apex.amp` and `apex.fp16_utils` are mixed precision for CUDA, built for one machine and long unmaintained.

    Instead: `torch.amp.autocast` around the forward pass, and `torch.amp.GradScaler` around `backward` and `step`. What
    a person must see to are checkpoints (apex saves its own state) and master weights.

    References: https://docs.pytorch.org/docs/stable/notes/amp_examples.html
    """

    code = "ADI05"
    name = "apex-amp"
    summary = "mixed precision by NVIDIA's apex"
    anchors = ("apex",)
    _ADVICE = {
        "initialize": "drop the call; run the forward pass under `with torch.amp.autocast(device.type):`",
        "scale_loss": "write `scaler.scale(loss).backward()` with `scaler = torch.amp.GradScaler(device.type)`, then `scaler.step(optimizer)` and `scaler.update()`",
        "master_params": "call `scaler.unscale_(optimizer)` and clip `model.parameters()`",
        "state_dict": "save `scaler.state_dict()`",
        "load_state_dict": "load it with `scaler.load_state_dict(...)`",
        "float_function": "write `with torch.amp.autocast(device.type, enabled=False):` in the function",
        "half_function": "leave the cast to `torch.amp.autocast(device.type)`",
        "register_float_function": "write `with torch.amp.autocast(device.type, enabled=False):` in the function",
        "register_half_function": "leave the cast to `torch.amp.autocast(device.type)`",
        "disable_casts": "write `torch.amp.autocast(device.type, enabled=False)`",
        "init": "run the forward pass under `with torch.amp.autocast(device.type):`",
    }
    examples = (
        Example(
            "the usual two calls",
            'from apex import amp\nmodel, opt = amp.initialize(model, opt, opt_level="O1")\n'
            "with amp.scale_loss(loss, opt) as scaled:\n    scaled.backward()\n",
        ),
        Example("the older interface", "from apex.fp16_utils import FP16_Optimizer\nopt = FP16_Optimizer(opt)\n"),
    )
    leaves = (Leave("from torch import amp\namp.initialize()\n", "not apex"), Leave("apex = 1\napex.amp\n", "a name"))

    def check(self, site: Site) -> Iterator[Finding]:
        name = site.qualname or ""
        if site.is_import or not name.startswith(("apex.amp.", "apex.fp16_utils.")):
            return
        last = name.rpartition(".")[2]
        advice = self._ADVICE.get(last, "use `torch.amp.autocast` and `torch.amp.GradScaler`")
        node = site.call.node if site.call is not None else site.reference
        message = f"`{text(site.reference)}` needs NVIDIA's apex, which is for CUDA only: {advice}"
        yield site.context.finding(self, node, message, Safety.MANUAL)


class HalfModule(PythonRule):
    """`model.half()` makes the whole model float16, which CPUs run slowly and, for some operators, not at all.

    Instead: halve it on an accelerator only, and its inputs with it (`x.to(next(model.parameters()).dtype)`); or use
    `torch.amp.autocast(device.type)`.
    """

    code = "ADI06"
    name = "half-module-on-any-device"
    summary = "a model is made float16 whatever the device"
    anchors = ("half",)
    needs = ("torch", r"\.half\(\)")
    _MODULES = re.compile(
        r"(?:^|[._])(?:\w*model|net|\w*_net|network|netG|netD|unet|vae|encoder|decoder|generator|discriminator|backbone"
        r"|transformer|module|G|D|G_ema|g_ema|ema|waveglow|tacotron2?|pipe|pipeline|clip|bert)\Z"
    )
    examples = (
        Example("a model", "import torch\nmodel.half()\n"),
        Example("after a move", "import torch\nmodel = build().eval()\nself.unet.half()\n"),
    )
    leaves = (
        Leave('import torch\nif device.type != "cpu":\n    model.half()\n', "asks for the device"),
        Leave("import torch\nx = x.half()\n", "not known to be a module"),
        Leave("import torch\nn = hero.half(2)\n", "not torch's"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.method_call
        if call is None or call.arguments or call.receiver is None or b"torch" not in site.module.data:
            return
        receiver = text(call.receiver)
        if not self._MODULES.search(receiver) or needs_accelerator(site.context, call.node):
            return
        device = site.context.placement.device(call.node)
        message = (
            f"float16 is slow on a CPU, and some operators lack it: write `{receiver}.half()` only where "
            f'`{device.type} != "cpu"`, and cast the inputs likewise'
        )
        yield site.context.finding(self, call.node, message, Safety.MANUAL)
