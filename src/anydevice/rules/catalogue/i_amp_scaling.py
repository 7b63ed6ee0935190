"""Group I, second part: loss scaling, and custom autograd functions under autocast."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding
from anydevice.rules.amp import call_of, device_there, safety_at
from anydevice.rules.amp_rule import AmpName
from anydevice.rules.rule import Example, Leave
from anydevice.rules.site import Context
from anydevice.source.syntax import text


class ScalerIgnoresDevice(AmpName):
    """`torch.cuda.amp.GradScaler()` scales where the machine has CUDA, whatever device the program has chosen.

    Instead: `torch.amp.GradScaler(device.type, enabled=device.type == "cuda")`. Elsewhere it stays off, as it was: unscaling
    takes float64, which MPS before torch 2.8 and Intel's Arc do not have, and on the CPU nothing is cast to float16.

    References: https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling
    """

    code = "ADI02"
    name = "scaler-ignores-device"
    summary = "loss scaling is tied to CUDA, not to the chosen device"
    anchors = ("GradScaler",)
    kinds = frozenset({"GradScaler"})
    trouble = "`{}` asks whether the machine has CUDA, not which device is used"
    advice = 'derive from (or pass on) `torch.amp.GradScaler`, whose first argument is the device type, and enable it where `device.type == "cuda"`'
    examples = (
        Example(
            "the plain form",
            "import torch\nscaler = torch.cuda.amp.GradScaler()\n",
            'import torch\nscaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")\n',
        ),
        Example(
            "a flag",
            "import torch\nscaler = torch.cuda.amp.GradScaler(enabled=(dtype == 'float16'))\n",
            "import torch\nscaler = torch.amp.GradScaler(device.type, enabled=(dtype == 'float16') and device.type == \"cuda\")\n",
        ),
        Example(
            "the machine",
            'import torch\nscaler = torch.amp.GradScaler("cuda", enabled=torch.cuda.is_available())\n',
            'import torch\nscaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")\n',
        ),
        Example(
            "a variable for the device type",
            "import torch\ndevice_type = torch.device(args.device).type\nscaler = torch.cuda.amp.GradScaler()\n",
            "import torch\ndevice_type = torch.device(args.device).type\n"
            'scaler = torch.amp.GradScaler(device_type, enabled=device_type == "cuda")\n',
        ),
        Example(
            "a scale by position",
            "import torch\nscaler = torch.cuda.amp.GradScaler(65536.)\n",
            'import torch\nscaler = torch.amp.GradScaler(device.type, 65536., enabled=device.type == "cuda")\n',
        ),
        Example(
            "the default device",
            "import torch\nscaler = torch.amp.GradScaler(init_scale=2.**10)\n",
            'import torch\nscaler = torch.amp.GradScaler(device.type, init_scale=2.**10, enabled=device.type == "cuda")\n',
        ),
        Example(
            "a type",
            "from torch.cuda.amp import GradScaler\ndef f(s: GradScaler) -> None:\n    assert isinstance(s, GradScaler)\n",
            "from torch.amp import GradScaler\ndef f(s: GradScaler) -> None:\n    assert isinstance(s, GradScaler)\n",
        ),
        Example(
            "hidden arguments",
            "import torch\nscaler = torch.cuda.amp.GradScaler(**kwargs)\n",
            "import torch\nscaler = torch.amp.GradScaler(device.type, **kwargs)\n",
        ),
        Example(
            "an old torch",
            "import torch\nscaler = torch.cuda.amp.GradScaler(enabled=args.amp)\n",
            'import torch\nscaler = torch.cuda.amp.GradScaler(enabled=args.amp and device.type == "cuda")\n',
            torch="2.0",
        ),
        Example("a subclass", "import torch\nclass Mine(torch.cuda.amp.GradScaler):\n    pass\n"),
    )
    leaves = (
        Leave("import torch\ns = torch.amp.GradScaler(device.type)\n", "follows the device"),
        Leave('import torch\ns = torch.amp.GradScaler("cpu")\n', "the CPU's on purpose"),
        Leave("from megengine.amp import GradScaler\ns = GradScaler()\n", "not torch's"),
    )

    def old(self, context: Context, reference: Node) -> Iterator[Finding]:
        """Before torch 2.3 there is only CUDA's: enable it where the chosen device is CUDA."""
        call = call_of(reference)
        if call is None or call.has_star:
            return
        device = device_there(context, call.node)
        condition = f'{device.type} == "cuda"'
        enabled = call.argument(4, "enabled")
        if enabled is None:
            edits = [context.module.insert(*call.insertion(f"enabled={condition}"))]
        elif enabled.value.type == "false" or '.type == "cuda"' in text(enabled.value):
            return
        elif enabled.value.type == "true":
            edits = [context.module.replace(enabled.value, condition)]
        else:
            held = text(enabled.value)
            plain = enabled.value.type in ("identifier", "attribute", "call", "parenthesized_expression", "subscript")
            edits = [context.module.replace(enabled.value, f"{held if plain else f'({held})'} and {condition}")]
        message = f"{self.trouble.format(text(reference))}; enable it where `{condition}`"
        yield context.finding(self, call.node, message, safety_at(context, call.node), [*edits, *device.edits])


class CudaCustomFunction(AmpName):
    """`torch.cuda.amp.custom_fwd` and `custom_bwd` follow CUDA's autocast, so that another device's is ignored.

    Instead: `torch.amp.custom_fwd(device_type=device.type)`. The decorator runs at import, so the device is the one that the
    module defines.
    """

    code = "ADI03"
    name = "hardcoded-custom-function-device"
    summary = "a custom autograd function follows CUDA's autocast only"
    anchors = ("custom_fwd", "custom_bwd")
    kinds = frozenset({"custom_fwd", "custom_bwd"})
    trouble = "`{}` follows the autocast of CUDA only"
    advice = "use `torch.amp.custom_fwd(device_type=device.type)`"
    examples = (
        Example(
            "bare",
            "import torch\nfrom torch.cuda.amp import custom_bwd, custom_fwd\nclass F(torch.autograd.Function):\n    @staticmethod\n"
            "    @custom_fwd\n    def forward(ctx, x):\n        return x\n    @staticmethod\n    @custom_bwd\n"
            "    def backward(ctx, g):\n        return g\n",
            "import torch\nfrom torch.amp import custom_bwd, custom_fwd\nclass F(torch.autograd.Function):\n    @staticmethod\n"
            "    @custom_fwd(device_type=device.type)\n    def forward(ctx, x):\n        return x\n    @staticmethod\n"
            "    @custom_bwd(device_type=device.type)\n    def backward(ctx, g):\n        return g\n",
        ),
        Example(
            "with a dtype",
            "import torch\n@torch.cuda.amp.custom_fwd(cast_inputs=torch.float16)\ndef forward(ctx, x):\n    return x\n",
            "import torch\n@torch.amp.custom_fwd(cast_inputs=torch.float16, device_type=device.type)\ndef forward(ctx, x):\n    return x\n",
        ),
        Example(
            "the generic form",
            'import torch\n@torch.amp.custom_bwd(device_type="cuda")\ndef backward(ctx, g):\n    return g\n',
            "import torch\n@torch.amp.custom_bwd(device_type=device.type)\ndef backward(ctx, g):\n    return g\n",
        ),
        Example("handed on", "import torch\nwrap = {'fwd': torch.cuda.amp.custom_fwd}\n"),
    )
    leaves = (
        Leave("import torch\n@torch.amp.custom_fwd(device_type=kind)\ndef f(ctx, x): pass\n", "follows the device"),
    )

    def old(self, context: Context, reference: Node) -> Iterator[Finding]:
        """Before torch 2.4 CUDA's own does no harm elsewhere: it looks for CUDA's autocast."""
        yield from ()
