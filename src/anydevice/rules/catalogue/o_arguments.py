"""Group O, sixth part: command-line options that number GPUs or turn CUDA on and off."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules import options
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.source.calls import Call
from anydevice.source.syntax import field, string_value, text

# argparse, optparse, click, typer, absl, and the option helpers that projects name alike.
_DEFINERS = re.compile(r"(?:^|\.)(?:add_argument|add_option|add_arg|option|Option|DEFINE_\w+)\Z")
_WORDS = (
    "gpu", "gpus", "GPU", "gpu_id", "gpu_ids", "gpuid", "gpuids", "gpu_list", "gpu_index", "gpu_devices", "device_id", "device_ids",
    "cuda_id", "cuda_device", "cuda_devices", "visible_gpus", "n_gpu", "n_gpus", "ngpu", "ngpus", "num_gpu", "num_gpus", "gpu_num",
    "ngpus_per_node", "gpus_per_node", "cuda", "use_cuda", "use_gpu", "enable_cuda", "no_cuda", "no_gpu", "disable_cuda", "nocuda", "with_cuda",
    "use_gpus", "on_gpu", "gpu_mode", "device-id", "device-ids",
)  # fmt: skip


class _Option:
    """One option as it is defined."""

    def __init__(self, call: Call, flag: str) -> None:
        definer = text(call.function).rpartition(".")[2]
        absl = definer.startswith("DEFINE_")
        self.flag = flag
        self.name = options.plain(flag)
        default = call.argument(1 if absl else None, "default")
        self.default = default.value if default is not None else _typer_default(call, definer)
        action, kind = call.keyword("action"), call.keyword("type")
        self.action = string_value(action.value) or text(action.value) if action is not None else ""
        self.kind = text(kind.value) if kind is not None else ""
        self.is_switch = (
            self.action in ("store_true", "store_false", "store_const")
            or "BooleanOptionalAction" in self.action
            or "bool" in self.kind.lower()
            or (call.keyword("is_flag") is not None and text(call.keyword("is_flag").value) == "True")  # type: ignore[union-attr]
            or "bool" in definer.lower()
            or (self.default is not None and self.default.type in ("true", "false"))
            or "/" in flag
        )

    @property
    def is_on(self) -> bool:
        """Whether the switch is on unless it is given."""
        return self.action == "store_false" or (self.default is not None and self.default.type == "true")

    @property
    def number(self) -> str | None:
        """The GPUs that the option names unless it is given: `0`, `0,1`, `[0]`."""
        if self.default is None:
            return None
        value = string_value(self.default)
        value = text(self.default) if value is None else value
        return value if options.is_number(value) else None


def _typer_default(call: Call, definer: str) -> Node | None:
    return call.positional[0].value if definer == "Option" and call.positional else None


def _option(site: Site) -> tuple[Call, _Option] | None:
    """The option whose name is the string at `site`."""
    holder = site.leaf.parent
    call_node = holder.parent if holder is not None and holder.type == "argument_list" else None
    if call_node is None or call_node.type != "call":
        return None
    call = Call(call_node)
    flag = string_value(site.leaf)
    if (
        flag is None
        or not _DEFINERS.search(text(call.function))
        or not re.fullmatch(r"-{0,2}[\w\-.]+(?:/--?[\w\-]+)?", flag)
    ):
        return None
    if not flag.startswith("-") and not text(call.function).rpartition(".")[2].startswith(("DEFINE_", "add_arg")):
        return None
    return call, _Option(call, flag)


class GpuNumberArgument(PythonRule):
    """`--gpu 0`, `--gpu_ids 0,1` or `--n_gpu 1` by default names devices that only machines with CUDA number so.

    The number goes on working where it is used for a device (`device_for(args.gpu)`), on any accelerator that has several;
    where there is one device or none it chooses nothing. Instead: one option `--device` whose default, None, means the best
    device there is, and the old option kept for scripts that pass it.
    """

    code = "ADO40"
    name = "gpu-number-argument"
    summary = "an option names GPUs by number unless told otherwise"
    text_anchors = _WORDS
    needs = (r"add_argument|add_option|option\(|Option\(|DEFINE_|argument\(|Argument",)
    examples = (
        Example("argparse", "import torch\nparser.add_argument('--gpu', type=int, default=0, help='gpu device id')\n"),
        Example("a string", "parser.add_argument('--gpu_ids', type=str, default='0', help='use -1 for CPU')\n"),
        Example("one dash", "parser.add_argument('-gpus', nargs='+', type=int, default=0)\n"),
        Example("a list", "import torch\nparser.add_argument('--device-ids', nargs='+', type=int, default=[0, 1])\n"),
        Example("a count", 'parser.add_argument("--n_gpu", type=int, default=1)\n'),
        Example("click", '@click.option("--gpu", default=0)\ndef main(gpu): pass\n'),
        Example("absl", 'flags.DEFINE_integer("gpu", 0, "which GPU")\n'),
        Example("typer", 'def main(gpu: int = typer.Option(0, "--gpu")): pass\n'),
    )
    leaves = (
        Leave("parser.add_argument('--gpu', type=int, default=None)\n", "no GPU unless given"),
        Leave("parser.add_argument('--gpu', type=int, default=-1)\n", "the CPU unless given"),
        Leave("parser.add_argument('--n_gpu', type=int, default=0)\n", "none unless given"),
        Leave(
            "parser.add_argument('--ids', default='0')\nparser.add_argument('--epochs', default=1, help='gpu')\n",
            "others",
        ),
        Leave("parser.add_argument('--device-id', type=int, default=0)\n", "a device of some kind"),
        Leave("print('--gpu', 0)\nconfig.get('gpu', 0)\n", "no options"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        found = _option(site)
        if found is None:
            return
        call, option = found
        counts = option.name in options.COUNTS
        if option.is_switch or option.number is None or not (counts or option.name in options.NUMBERS):
            return
        if counts and option.number == "0":
            return
        if option.name in options.AMBIGUOUS and not re.search(rb"torch|cuda", site.module.data):
            return
        meaning = (
            "take the smaller of it and `torch.accelerator.device_count()`, and the CPU where that is 0"
            if counts
            else "add `--device` with `default=None` for the best device there is, keep this one for who passes it, and use the number "
            "only where `torch.accelerator.device_count() > 1`"
        )
        yield site.context.finding(
            self,
            call.node,
            f"`{option.flag}` is `{option.number}` unless given, which machines without CUDA may not have; decide what it means there: "
            f"usual: {meaning}",
            Safety.MANUAL,
        )


class CudaFlagArgument(PythonRule):
    """`--cuda`, `--use_gpu` or `--no-cuda` decides about CUDA alone, while the code will run on any accelerator.

    A switch goes on working: it comes to mean "use the accelerator". Instead of renaming it, which breaks the scripts that
    pass it, give it a second name.
    """

    code = "ADO41"
    name = "cuda-flag-argument"
    summary = "a switch turns CUDA, and not any accelerator, on or off"
    text_anchors = _WORDS
    needs = (r"add_argument|add_option|option\(|Option\(|DEFINE_|argument\(|Argument",)
    examples = (
        Example("off", "import torch\nparser.add_argument('--no-cuda', action='store_true', default=False)\n"),
        Example("on", "parser.add_argument('--use_cuda', action='store_true')\n"),
        Example("on by default", "parser.add_argument('--cuda', action='store_false', help='use CUDA')\n"),
        Example("a boolean", "parser.add_argument('--cuda', type=bool, default=True)\n"),
        Example("an integer", "parser.add_argument('--use-gpu', type=int, default=1)\n"),
        Example("absl", 'flags.DEFINE_bool("use_gpu", True, "use a GPU")\n'),
        Example("click", '@click.option("--cuda/--no-cuda", default=True)\ndef main(cuda): pass\n'),
    )
    leaves = (
        Leave("parser.add_argument('--cpu', action='store_true')\n", "no CUDA in it"),
        Leave("parser.add_argument('--cuda', default='cuda:0')\n", "a device, not a switch"),
        Leave("parser.add_argument('--gpu', type=int, default=0)\n", "a number"),
        Leave("print('--no-cuda')\n", "a text"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        found = _option(site)
        if found is None:
            return
        call, option = found
        name = option.name.partition("/")[0]
        off = name in options.OFF_FLAGS
        integer = option.number in ("0", "1") and name not in options.NUMBERS
        if not (off or name in options.FLAGS) or not (option.is_switch or integer):
            return
        yield site.context.finding(self, call.node, _about_switch(option, name, off=off), Safety.MANUAL)


def _about_switch(option: _Option, name: str, *, off: bool) -> str:
    if off:
        return (
            f"`{option.flag}` comes to turn off every accelerator; decide on its name: usual: keep it and add another, "
            f'`add_argument("{option.flag}", "--no-accel", ...)`'
        )
    on = option.is_on or option.number == "1"
    if on:
        return (
            f"`{option.flag}` is on unless told otherwise; decide what it means without CUDA: usual: use the accelerator there is, or the "
            f"CPU, and `raise` only where someone asks for CUDA by name"
        )
    return (
        f"`{option.flag}` comes to mean any accelerator; decide on its name and whether it is still needed: usual: keep it, and let "
        "the device of the machine be the default"
    )


class GpuParameterOfCommand(PythonRule):
    """`fire.Fire(main)` makes an option of every parameter: `def main(gpu=0)` asks for CUDA device 0.

    Instead: `def main(device=None)`, resolved to the best device there is.
    """

    code = "ADO42"
    name = "gpu-parameter-of-command"
    summary = "a parameter that becomes an option names GPUs by number"
    anchors = ("Fire",)
    examples = (
        Example("fire", "import fire\n\ndef main(data, gpu=0, use_cuda=True):\n    pass\n\nfire.Fire(main)\n"),
        Example(
            "a class",
            "import fire\n\nclass Trainer:\n    def __init__(self, gpus='0,1'):\n        pass\n\nfire.Fire(Trainer)\n",
        ),
    )
    leaves = (Leave("import fire\n\ndef main(data, gpu=None, n=0):\n    pass\n\nfire.Fire(main)\n", "others"),)

    def check(self, site: Site) -> Iterator[Finding]:
        if site.call is None or site.qualname != "fire.Fire" or not site.call.positional:
            return
        target = site.call.positional[0].value
        bindings = site.module.names.lookup(target) if target.type == "identifier" else ()
        for binding in bindings:
            for parameter in _parameters(binding.value) if binding.value is not None else ():
                name, value = field(parameter, "name"), field(parameter, "value")
                if name is None or value is None:
                    continue
                key, default = options.plain(text(name)), string_value(value) or text(value)
                numbered = key in options.NUMBERS | options.COUNTS and options.is_number(default)
                if numbered or (key in options.FLAGS and value.type == "true"):
                    yield site.context.finding(
                        self,
                        parameter,
                        f"`--{text(name)}` is `{default}` unless given, which asks for CUDA; decide what it means elsewhere: usual: a "
                        "parameter `device=None` for the best device there is",
                        Safety.MANUAL,
                    )


def _parameters(definition: Node) -> list[Node]:
    """The parameters with defaults of a function, or of a class's methods."""
    if definition.type == "function_definition":
        parameters = field(definition, "parameters")
        return [p for p in parameters.named_children if "default" in p.type] if parameters is not None else []
    body = field(definition, "body")
    if definition.type != "class_definition" or body is None:
        return []
    return [p for child in body.named_children if child.type == "function_definition" for p in _parameters(child)]
