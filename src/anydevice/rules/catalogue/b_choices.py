"""Group B: the choice between CUDA and the CPU."""

from __future__ import annotations

from collections.abc import Iterator

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.availability import chosen_literals
from anydevice.rules.literal import DeviceLiteral
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site


class CudaOrCpuChoice(PythonRule):
    """`"cuda" if torch.cuda.is_available() else "cpu"` never picks the GPU of a Mac (mps) or of Intel (xpu).

    Instead: `torch.accelerator.current_accelerator()` where `torch.accelerator.is_available()`, which on a CUDA machine
    is the same device. For a torch before 2.6 the choice between cuda, xpu, mps and cpu is spelled out once.

    References: https://docs.pytorch.org/docs/stable/accelerator.html
    """

    code = "ADB01"
    name = "cuda-or-cpu-choice"
    summary = "the choice is between CUDA and the CPU only"
    anchors = ("is_available",)
    needs = (r"cuda|accelerator\.is_available",)
    examples = (
        Example(
            "a string",
            'import torch\nd = "cuda" if torch.cuda.is_available() else "cpu"\n',
            'import torch\nd = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"\n',
        ),
        Example(
            "a device",
            'import torch\nd = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")\n',
            'import torch\nd = torch.device(torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu")\n',
        ),
        Example(
            "two branches",
            'import torch\nif torch.cuda.is_available():\n    d = torch.device("cuda")\nelse:\n    d = torch.device("cpu")\n',
            "import torch\nif torch.accelerator.is_available():\n    d = torch.accelerator.current_accelerator()\n"
            'else:\n    d = torch.device("cpu")\n',
        ),
        Example(
            "with a flag",
            'import torch\nd = torch.device("cuda" if args.cuda and torch.cuda.is_available() else "cpu")\n',
            "import torch\nd = torch.device(torch.accelerator.current_accelerator() if args.cuda and "
            'torch.accelerator.is_available() else "cpu")\n',
        ),
        Example(
            "an old torch",
            'import torch\nd = "cuda" if torch.cuda.is_available() else "cpu"\n',
            'import torch\nd = device.type if device.type != "cpu" else "cpu"\n',
            torch="1.8",
        ),
    )
    leaves = (
        Leave(
            'import torch\nd = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"\n',
            "knows of other devices already",
        ),
        Leave(
            'import torch\nif torch.cuda.is_available():\n    d = "cuda"\nelif torch.backends.mps.is_available():\n    d = "mps"\n'
            'else:\n    d = "cpu"\n',
            "knows of other devices already, in branches",
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if site.qualname != "torch.cuda.is_available" or site.call is None:
            return
        literals = chosen_literals(site.context, site.call.node)
        if not literals:
            return
        context, placement = site.context, site.context.placement
        available = placement.available(site.call.node)
        edits: list[Edit] = [site.module.replace(site.call.node, available.text), *available.edits]
        for literal in literals:
            edits += self._chosen(context, literal)
        yield context.finding(
            self,
            site.call.node,
            "only CUDA and the CPU are chosen from: ask `torch.accelerator` (or mps and xpu too)",
            Safety.SAFE,
            edits,
        )

    def _chosen(self, context: Context, literal: DeviceLiteral) -> list[Edit]:
        placement, module = context.placement, context.module
        index = literal.index
        if index == "0" and not context.facts.sets_device:
            index = None
        maker = literal.device_call
        if index is not None:
            expression = placement.indexed(literal.node, index)
            written = expression.text if maker else f"str({expression.text})"
            return [module.replace(maker or literal.node, written), *expression.edits]
        if context.target.has_accelerator:
            torch = placement.torch_name(literal.node)
            accelerator = f"{torch.text}.accelerator.current_accelerator()"
            if maker is not None and not literal.in_choice_argument:
                return [module.replace(maker, accelerator), *torch.edits]
            in_device = literal.in_choice_argument
            return [module.replace(literal.node, accelerator if in_device else f"{accelerator}.type"), *torch.edits]
        device = placement.device(literal.node)
        if maker is not None and not literal.in_choice_argument:
            return [module.replace(maker, device.expr), *device.edits]
        return [module.replace(literal.node, device.type), *device.edits]
