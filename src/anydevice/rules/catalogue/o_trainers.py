"""Group O, ninth part: Lightning's Trainer and Fabric, which are told what to run on."""

from __future__ import annotations

from collections.abc import Iterator

from anydevice.finding import Finding, Safety
from anydevice.rules.options import is_number
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.source.calls import Argument, Call
from anydevice.source.syntax import same, string_value, text

_CLASSES = ("Trainer", "LightningTrainer", "Fabric", "LightningLite", "from_argparse_args", "instantiate")


class GpuTrainer(PythonRule):
    """`Trainer(accelerator="gpu")` and `Trainer(gpus=1)` raise where there is no GPU.

    Instead: `accelerator="auto"`, which takes the accelerator there is, or the CPU. Not safe: it also prefers a TPU, and
    someone who asked for a GPU is no longer told that there is none. `gpus=` went away in Lightning 2.0; `accelerator="auto"`
    and `devices=` exist since 1.6. A list of devices is for a person to decide: the CPU takes only a count.

    References: https://lightning.ai/docs/pytorch/stable/common/trainer.html#accelerator
    """

    code = "ADO60"
    name = "gpu-trainer"
    summary = "Lightning is told to run on GPUs"
    anchors = ("gpus",)
    text_anchors = ("gpu",)
    examples = (
        Example(
            "an accelerator",
            'import pytorch_lightning as pl\ntrainer = pl.Trainer(accelerator="gpu", devices=1)\n',
            'import pytorch_lightning as pl\ntrainer = pl.Trainer(accelerator="auto", devices=1)\n',
        ),
        Example(
            "fabric",
            "from lightning.fabric import Fabric\nfabric = Fabric(accelerator='gpu')\n",
            "from lightning.fabric import Fabric\nfabric = Fabric(accelerator='auto')\n",
        ),
        Example(
            "one GPU",
            "from pytorch_lightning import Trainer\ntrainer = Trainer(gpus=1, max_epochs=2)\n",
            'from pytorch_lightning import Trainer\ntrainer = Trainer(accelerator="auto", devices=1, max_epochs=2)\n',
        ),
        Example(
            "all GPUs",
            "from pytorch_lightning import Trainer\ntrainer = Trainer(gpus=-1)\n",
            'from pytorch_lightning import Trainer\ntrainer = Trainer(accelerator="auto", devices="auto")\n',
        ),
        Example(
            "one where there is one",
            "import pytorch_lightning as pl\nt = pl.Trainer(gpus=1 if torch.cuda.is_available() else 0)\n",
            'import pytorch_lightning as pl\nt = pl.Trainer(accelerator="auto", devices=1)\n',
        ),
        Example("a choice of GPUs", "import pytorch_lightning as pl\nt = pl.Trainer(gpus=[0, 1])\n"),
        Example("an argument", "import pytorch_lightning as pl\nt = pl.Trainer(gpus=args.gpus)\n"),
        Example("devices of a GPU", 'import pytorch_lightning as pl\nt = pl.Trainer(accelerator="gpu", devices=[0])\n'),
    )
    leaves = (
        Leave(
            'import pytorch_lightning as pl\npl.Trainer(accelerator="auto")\npl.Trainer(accelerator="ddp", gpus=0)\n',
            "others",
        ),
        Leave('from accelerate import Accelerator\nx = run(accelerator="gpu", gpus=1)\n', "not Lightning"),
        Leave("import tensorflow as tf\nmodel = Trainer(gpus=1)\n", "not Lightning"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        holder = site.leaf.parent
        if holder is None or holder.type != "keyword_argument" or holder.parent is None or holder.parent.parent is None:
            return
        node = holder.parent.parent
        if node.type != "call" or not _is_lightning(site, Call(node)):
            return
        argument = next(a for a in Call(node).arguments if same(a.node, holder))
        if site.in_string and argument.name == "accelerator":
            yield from self._accelerator(site, Call(node), argument)
        elif not site.in_string and argument.name == "gpus" and site.keyword is not None:
            yield from self._gpus(site, Call(node), argument)

    def _accelerator(self, site: Site, call: Call, argument: Argument) -> Iterator[Finding]:
        value = string_value(argument.value)
        if value != "gpu":  # "cuda" is a device literal like any other
            return
        devices = call.keyword("devices")
        if devices is not None and (devices.value.type == "list" or text(devices.value) in ("-1", '"-1"', "'-1'")):
            yield site.context.finding(
                self,
                argument.node,
                f'`accelerator="{value}"` raises without a GPU, and the CPU takes no `devices={text(devices.value)}`; decide how many '
                'devices other machines use: usual: `accelerator="auto", devices="auto"`, or `devices=1`',
                Safety.MANUAL,
            )
            return
        quote = text(argument.value)[-1]
        yield site.context.finding(
            self,
            argument.node,
            f'`accelerator="{value}"` raises without a GPU; write `accelerator="auto"`, which takes the accelerator there is, or the CPU',
            Safety.UNSAFE,
            [site.module.replace(argument.value, f"{quote}auto{quote}")],
        )

    def _gpus(self, site: Site, call: Call, argument: Argument) -> Iterator[Finding]:
        value = argument.value
        if value.type == "none" or text(value) in ("0", "[]", "False"):
            return
        if value.type == "conditional_expression" and "is_available" in text(value):
            value = value.named_children[0]
        source = text(value)
        devices = (
            '"auto"'
            if source in ("-1", '"-1"', "'-1'")
            else source
            if is_number(source) and value.type == "integer"
            else None
        )
        taken = call.keyword("accelerator", "devices") is not None
        if devices is None or taken:
            yield site.context.finding(
                self,
                argument.node,
                f"`{text(argument.node)}` asks Lightning for GPUs, and raises without CUDA; decide how many devices other machines use: "
                'usual: `accelerator="auto", devices=1` (or a number that is given)',
                Safety.MANUAL,
            )
            return
        written = f'accelerator="auto", devices={devices}'
        yield site.context.finding(
            self,
            argument.node,
            f"`{text(argument.node)}` raises without CUDA; write `{written}`",
            Safety.UNSAFE,
            [site.module.replace(argument.node, written)],
        )


def _is_lightning(site: Site, call: Call) -> bool:
    name = (site.module.qualname(call.function) or text(call.function)).rsplit(".", 1)[-1]
    source = site.module.data
    return name in _CLASSES and (b"lightning" in source.lower()) and b"import tensorflow" not in source
