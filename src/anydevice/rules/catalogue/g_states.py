"""Group G, second part: states of random number generators."""

from __future__ import annotations

import re
from collections.abc import Iterator

from anydevice.finding import Finding, Safety
from anydevice.rules.catalogue.g_random import SEEDS
from anydevice.rules.cuda_api import RANDOM, Fate, member
from anydevice.rules.cuda_calls import is_free, is_statement, rewrite, written
from anydevice.rules.guards import needs_cuda
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.source.syntax import text


class CudaRngState(PythonRule):
    """`torch.cuda.get_rng_state()` raises where there is no CUDA, and knows nothing of other accelerators.

    Instead: `torch.get_device_module().get_rng_state()` behind `torch.accelerator.is_available()`. The states of one
    back end mean nothing to another. `get_rng_state_all` gives an empty list without CUDA.
    """

    code = "ADG02"
    name = "cuda-rng-state"
    summary = "the state of CUDA's random numbers is kept or restored"
    anchors = (
        "get_rng_state",
        "set_rng_state",
        "get_rng_state_all",
        "set_rng_state_all",
        "initial_seed",
        "default_generators",
    )
    examples = (
        Example(
            "kept",
            "import torch\ns = torch.cuda.get_rng_state()\n",
            "import torch\ns = torch.get_device_module(torch.accelerator.current_accelerator()).get_rng_state() if torch.accelerator.is_available() else None\n",
        ),
        Example(
            "restored",
            "import torch\ntorch.cuda.set_rng_state(s)\n",
            "import torch\nif torch.accelerator.is_available():\n    torch.get_device_module(torch.accelerator.current_accelerator()).set_rng_state(s)\n",
        ),
        Example(
            "of one device",
            "import torch\ns = torch.cuda.get_rng_state(d)\n",
            "import torch\ns = torch.cuda.get_rng_state(d) if torch.cuda.is_available() else None\n",
        ),
        Example(
            "the seed",
            "import torch\ns = torch.cuda.initial_seed()\n",
            "import torch\ns = torch.cuda.initial_seed() if torch.cuda.is_available() else torch.initial_seed()\n",
        ),
        Example("of all devices", "import torch\ns = torch.cuda.get_rng_state_all()\n"),
    )
    leaves = (
        Leave("import torch\ns = torch.get_rng_state()\n", "the CPU's"),
        Leave(
            "import torch\nif torch.cuda.is_available():\n    s = torch.cuda.get_rng_state_all()\n",
            "asked only of CUDA",
        ),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        name = member(site.qualname)
        if name not in RANDOM or name in SEEDS or site.is_import:
            return
        context, call = site.context, site.call
        api = RANDOM[name]
        guarded = needs_cuda(context, site.reference)
        if api.fate is Fate.QUIET or call is None:
            if not guarded:
                yield context.finding(
                    self,
                    site.reference,
                    f"`{text(site.reference)}` knows CUDA devices only: keep `torch.get_device_module().get_rng_state()` beside it "
                    "where `torch.accelerator.is_available()`, if runs on other accelerators must be resumed exactly",
                    Safety.MANUAL,
                )
            return
        torch = context.placement.torch_name(call.node)
        whole = len(call.arguments) == (1 if name == "set_rng_state" else 0)
        if name == "initial_seed" or not whole:
            if guarded:
                return
            otherwise = f"{torch.text}.initial_seed()" if name == "initial_seed" else "None"
            open_, close = ("", "") if is_free(call.node) else ("(", ")")
            if is_statement(context, call):
                lead = f"if {torch.text}.cuda.is_available():\n{site.module.indent(call.node)}{site.module.indent_unit}"
                edits = [site.module.insert(call.node.start_byte, lead), *torch.edits]
                new = f"if {torch.text}.cuda.is_available(): {text(call.node)}"
            else:
                new = f"{open_}{text(call.node)} if {torch.text}.cuda.is_available() else {otherwise}{close}"
                edits = [site.module.replace(call.node, new), *torch.edits]
            yield context.finding(self, call.node, f"raises where there is no CUDA; write `{new}`", Safety.SAFE, edits)
            return
        form = written(context, call, name)
        if form is not None:
            yield context.finding(
                self,
                call.node,
                f"knows CUDA only; write `{form.text(call)}`"
                + (f" behind `{form.condition.text}`" if form.condition is not None else ""),
                Safety.SAFE,
                rewrite(context, call, form, api.otherwise),
            )


class ForkRngDevices(PythonRule):
    """`torch.random.fork_rng(devices=[0])` keeps the states of CUDA devices, and raises where there are none.

    Instead: `devices=[]` on a CPU (its state is always kept) and `device_type=device.type` on other accelerators; MPS
    cannot be given a number.
    """

    code = "ADG03"
    name = "fork-rng-devices"
    summary = "CUDA devices whose random state is kept"
    anchors = ("fork_rng",)
    examples = (Example("a number", "import torch\nwith torch.random.fork_rng(devices=[0]):\n    f()\n"),)
    leaves = (
        Leave("import torch\nwith torch.random.fork_rng(devices=[]):\n    f()\n", "the CPU only"),
        Leave("import torch\nwith torch.random.fork_rng():\n    f()\n", "whatever devices there are"),
        Leave("import torch\nwith torch.random.fork_rng(devices=d, device_type=t):\n    f()\n", "the type is said"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if site.qualname != "torch.random.fork_rng" or site.call is None or needs_cuda(site.context, site.call.node):
            return
        devices, kind = site.call.argument(0, "devices"), site.call.argument(4, "device_type")
        if devices is None or kind is not None or text(devices.value) in ("[]", "()", "None"):
            return
        if re.match(r"range\(torch\.(?:cuda|accelerator)\.device_count\(\)\)", text(devices.value)):
            return
        yield site.context.finding(
            self,
            site.call.node,
            f"`devices={text(devices.value)}` are CUDA's: give `[]` where there is no accelerator, and `device_type=device.type`",
            Safety.MANUAL,
        )
