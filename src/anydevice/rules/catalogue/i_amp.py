"""Group I, first part: autocast, loss scaling and custom autograd functions of mixed precision."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.amp import (
    Meaning,
    alternative,
    call_of,
    casting,
    import_plan,
    is_cuda_literal,
    is_type,
    meaning,
    offered,
    plan,
    safety_at,
)
from anydevice.rules.imports import imported
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Call
from anydevice.source.syntax import field, same, text


class _AmpName(PythonRule):
    """What the rules about single names of torch.amp have in common."""

    kinds: ClassVar[frozenset[str]]
    trouble: ClassVar[str]
    advice: ClassVar[str]

    def check(self, site: Site) -> Iterator[Finding]:
        context = site.context
        if site.is_import or site.keyword is not None or is_binding(context, site.leaf):
            return
        for reference in (site.reference, *other_names(context, site.reference, self.anchors)):
            meant = meaning(context, reference)
            if meant is None or meant.kind not in self.kinds or is_harmless(context, reference):
                continue
            if meant.cuda and not offered(context, meant.kind):
                yield from self.old(context, reference)
            else:
                yield from self.mended(context, reference, meant)

    def mended(self, context: Context, reference: Node, meant: Meaning) -> Iterator[Finding]:
        """The finding at one use, with all other uses of an import that changes with it."""
        call = call_of(reference)
        node = call.node if call is not None else reference
        together = import_plan(context, meant) if meant.cuda else None
        own = plan(context, reference, meant, renamed=together is not None)
        if own is not None and own.edits:
            edits = together if together is not None else own.edits
            message = f"{self.trouble.format(text(reference))}; write `{own.written}`"
            yield context.finding(self, node, message, own.safety, list(edits))
        elif own is not None and together is not None:  # a type: the import is all that changes
            yield context.finding(self, node, "the name moves with its import to torch.amp", own.safety, list(together))
        elif own is None and (meant.cuda or call is None):
            yield from self.decided(context, reference, meant)

    def decided(self, context: Context, reference: Node, meant: Meaning) -> Iterator[Finding]:
        """The finding where the use cannot be mended alone."""
        if meant.cuda:
            message = f"{self.trouble.format(text(reference))}: {self.advice}"
            yield context.finding(self, reference, message, Safety.MANUAL)

    @abstractmethod
    def old(self, context: Context, reference: Node) -> Iterator[Finding]:
        """The finding where the oldest supported torch has no counterpart in torch.amp."""


def is_binding(context: Context, leaf: Node) -> bool:
    """Whether an identifier is where its name is bound, not where it is used."""
    return any(same(binding.node, leaf) for binding in context.module.names.bindings(text(leaf)))


def other_names(context: Context, reference: Node, anchors: tuple[str, ...]) -> list[Node]:
    """The uses of another name that `reference` is assigned to, which no anchor meets."""
    parent = reference.parent
    left = field(parent, "left") if parent is not None and parent.type == "assignment" else None
    if left is None or left.type != "identifier" or text(left) in anchors:
        return []
    return list(context.module.names.references(text(left)))


def is_harmless(context: Context, reference: Node) -> bool:
    """A name that is only handed on under another name, all uses of which are calls that are found themselves."""
    parent = reference.parent
    if parent is None or parent.type != "assignment" or not same(field(parent, "right"), reference):
        return False
    left = field(parent, "left")
    if left is None or left.type != "identifier":
        return False
    for use in context.module.names.references(text(left)):
        if meaning(context, use) is None or (call_of(use) is None and not is_type(use)):
            return False
    return True


class HardcodedAutocastDevice(_AmpName):
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
        device = context.placement.device(call.node)
        kind, _ = casting(context, device.type)
        edits = [context.module.replace(literal, kind), *device.edits]
        safety = safety_at(context, call.node)
        parts = [c for c in conditional.named_children if c.type != "comment"] if conditional is not None else []
        if len(parts) == 3:
            first = parts[0].start_byte <= reference.start_byte < parts[0].end_byte
            there = context.placement.device(conditional or reference)
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
        device, torch = context.placement.device(reference), context.placement.torch_name(reference)
        functools = imported(context, reference, "functools")
        kind, condition = casting(context, device.type)
        new = f"{functools.text}.partial({torch.text}.amp.autocast, {kind}, enabled={condition})"
        edits = [context.module.replace(reference, new), *device.edits, *torch.edits, *functools.edits]
        message = f"`{text(reference)}` casts on CUDA only; write `{new}`"
        return context.finding(self, reference, message, safety_at(context, reference), edits)


class ScalerIgnoresDevice(_AmpName):
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
        device = context.placement.device(call.node)
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


class CudaCustomFunction(_AmpName):
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
