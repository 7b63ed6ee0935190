"""Group I, first part: autocast."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.amp import Meaning, casting, device_there, is_cuda_literal, safety_at
from anydevice.rules.amp_names import alternative
from anydevice.rules.amp_rule import AmpName
from anydevice.rules.imports import imported
from anydevice.rules.rule import Example, Leave
from anydevice.rules.site import Context
from anydevice.source.calls import Call
from anydevice.source.syntax import text


class HardcodedAutocastDevice(AmpName):
    """`torch.cuda.amp.autocast()` and `torch.autocast("cuda")` do nothing but warn where there is no CUDA.

    Instead: `torch.amp.autocast(device.type, ...)`. The two take their arguments in another order, so that positions become
    keywords. To float16 (the default on CUDA) it stays off on the CPU, as it was: the CPU's default is bfloat16, which
    NumPy cannot read.

    References: https://docs.pytorch.org/docs/stable/amp.html
    """

    code = "ADI01"
    name = "hardcoded-autocast-device"
    summary = "autocast names CUDA"
    anchors = ("autocast",)
    kinds = frozenset({"autocast"})
    trouble = "`{}` casts on CUDA only"
    advice = "write `torch.amp.autocast(device.type, ...)` where it is called"
    examples = (
        Example(
            "a block",
            "import torch\nwith torch.cuda.amp.autocast():\n    y = f(x)\n",
            'import torch\nwith torch.amp.autocast(device.type, enabled=device.type != "cpu"):\n    y = f(x)\n',
        ),
        Example(
            "positions",
            "import torch\nwith torch.cuda.amp.autocast(args.amp, torch.bfloat16):\n    y = f(x)\n",
            "import torch\nwith torch.amp.autocast(device.type, enabled=args.amp, dtype=torch.bfloat16):\n    y = f(x)\n",
        ),
        Example(
            "a flag",
            "import torch\nwith torch.cuda.amp.autocast(enabled=args.amp):\n    y = f(x)\n",
            'import torch\nwith torch.amp.autocast(device.type, enabled=args.amp and device.type != "cpu"):\n    y = f(x)\n',
        ),
        Example(
            "an import",
            "import torch\nfrom torch.cuda.amp import autocast, GradScaler\nscaler = GradScaler()\nwith autocast():\n    y = f(x)\n",
            'import torch\nfrom torch.amp import autocast, GradScaler\nscaler = GradScaler(device.type, enabled=device.type == "cuda")\n'
            'with autocast(device.type, enabled=device.type != "cpu"):\n    y = f(x)\n',
        ),
        Example(
            "the module's name",
            "import torch\nfrom torch.cuda import amp\nwith amp.autocast(enabled=False):\n    y = f(x)\n",
            "import torch\nfrom torch import amp\nwith amp.autocast(device.type, enabled=False):\n    y = f(x)\n",
        ),
        Example(
            "an import that may fail",
            "import torch\ntry:\n    from torch.cuda.amp import autocast\nexcept ImportError:\n    class autocast:\n        pass\n"
            "with autocast(enabled=False):\n    y = f(x)\n",
            "import torch\ntry:\n    from torch.cuda.amp import autocast\nexcept ImportError:\n    class autocast:\n        pass\n"
            "with torch.amp.autocast(device.type, enabled=False):\n    y = f(x)\n",
        ),
        Example(
            "the generic form",
            'import torch\n@torch.autocast(device_type="cuda", dtype=torch.bfloat16)\ndef f(x):\n    return x\n',
            "import torch\n@torch.autocast(device_type=device.type, dtype=torch.bfloat16)\ndef f(x):\n    return x\n",
        ),
        Example(
            "a flag's device",
            'import torch\nwith torch.autocast("cuda" if args.cuda else "cpu"):\n    y = f(x)\n',
            'import torch\nwith torch.autocast(device.type if args.cuda else "cpu"):\n    y = f(x)\n',
        ),
        Example(
            "behind a question",
            'import torch\nif device.type != "cpu":\n    c = torch.autocast("cuda", torch.float16)\n',
            'import torch\nif device.type != "cpu":\n    c = torch.autocast(DEVICE.type, torch.float16)\n',
        ),
        Example(
            "autocast or nothing",
            'import torch\nfrom torch import autocast\nscope = autocast if opt.half else nullcontext\nwith scope("cuda"):\n    f(x)\n',
            'import torch\nfrom torch import autocast\nscope = autocast if opt.half and device.type != "cpu" else nullcontext\n'
            "with scope(device.type):\n    f(x)\n",
        ),
        Example(
            "autocast or nothing, the old name",
            "import functools\nimport torch\nscope = torch.cuda.amp.autocast if opt.half else nullcontext\nwith scope():\n    f(x)\n",
            "import functools\nimport torch\nscope = functools.partial(torch.amp.autocast, device.type, "
            'enabled=device.type != "cpu") if opt.half else nullcontext\nwith scope():\n    f(x)\n',
        ),
        Example(
            "an old torch",
            "import torch\nwith torch.cuda.amp.autocast():\n    y = f(x)\n",
            'import torch\nwith torch.amp.autocast("cpu" if device.type == "mps" else device.type, '
            'enabled=device.type not in ("cpu", "mps")):\n    y = f(x)\n',
            torch="2.0",
        ),
        Example(
            "another name",
            "import torch\ncast = torch.cuda.amp.autocast\nwith cast(enabled=False):\n    y = f(x)\n",
            "import torch\ncast = torch.cuda.amp.autocast\nwith torch.amp.autocast(device.type, enabled=False):\n    y = f(x)\n",
        ),
        Example("hidden arguments", "import torch\nwith torch.cuda.amp.autocast(*args):\n    pass\n"),
        Example("handed on", "import torch\nrun(torch.cuda.amp.autocast)\n"),
    )
    leaves = (
        Leave("import torch\nwith torch.autocast(device_type=device_type, dtype=t):\n    pass\n", "follows the device"),
        Leave('import torch\nwith torch.autocast("cpu"):\n    pass\n', "the CPU's on purpose"),
        Leave("with accelerator.autocast():\n    pass\n", "another library's"),
        Leave("from apex.amp import autocast\nautocast()\n", "not torch's"),
    )

    def old(self, context: Context, reference: Node) -> Iterator[Finding]:
        """Before torch 1.10 CUDA's own does no harm elsewhere: it warns."""
        yield from ()

    def decided(self, context: Context, reference: Node, meant: Meaning) -> Iterator[Finding]:
        found = alternative(context, reference)
        if found is None:
            yield from super().decided(context, reference, meant)
            return
        if not meant.cuda:
            for call in found.calls:
                device = call.argument(0, "device_type")
                if device is not None and is_cuda_literal(context, device.value):
                    yield self._chosen(context, reference, call, device.value, found.conditional)
        elif found.calls and not any(call.positional or call.has_star for call in found.calls):
            yield self._partial(context, reference)
        else:
            yield from super().decided(context, reference, meant)

    def _chosen(
        self, context: Context, reference: Node, call: Call, literal: Node, conditional: Node | None
    ) -> Finding:
        """`scope("cuda")` of `scope = autocast if wanted else nullcontext`: not wanted on the CPU."""
        device = device_there(context, call.node)
        kind, _ = casting(context, device.type)
        edits = [context.module.replace(literal, kind), *device.edits]
        safety = safety_at(context, call.node)
        parts = [c for c in conditional.named_children if c.type != "comment"] if conditional is not None else []
        if len(parts) == 3:
            first = parts[0].start_byte <= reference.start_byte < parts[0].end_byte
            there = device_there(context, conditional or reference)
            condition = casting(context, there.type)[1]
            contrary = condition.replace("!=", "==").replace(" not in ", " in ")
            more = f" and {condition}" if first else f" or {contrary}"
            loose = parts[1].type in ("boolean_operator", "lambda") and any(
                c.type == ("or" if first else "and") for c in parts[1].children
            )
            if loose:
                edits.append(context.module.replace(parts[1], f"({text(parts[1])}){more}"))
            else:
                edits.append(context.module.insert(parts[1].end_byte, more))
            edits += there.edits
        else:
            safety = Safety.UNSAFE
        message = f"`{text(call.node)}` casts on CUDA only; write `{device.type}`, and leave it out on the CPU"
        return context.finding(self, literal, message, safety, edits)

    def _partial(self, context: Context, reference: Node) -> Finding:
        """`torch.cuda.amp.autocast`, to be called without arguments somewhere."""
        device, torch = device_there(context, reference), context.placement.torch_name(reference)
        functools = imported(context, reference, "functools")
        kind, condition = casting(context, device.type)
        new = f"{functools.text}.partial({torch.text}.amp.autocast, {kind}, enabled={condition})"
        edits = [context.module.replace(reference, new), *device.edits, *torch.edits, *functools.edits]
        message = f"`{text(reference)}` casts on CUDA only; write `{new}`"
        return context.finding(self, reference, message, safety_at(context, reference), edits)
