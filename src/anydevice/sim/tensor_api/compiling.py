"""`torch.compile`: a compiled function runs as it is written, since a compiler would make kernels for this machine."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.simulation import Simulation

_compile = torch.compile


def install(patches: Patches, simulation: Simulation) -> None:
    """Replace it by a function that compiles nothing, and says so."""
    asleep = False

    @functools.wraps(_compile)
    def compile(*args: Any, **kwargs: Any) -> Any:
        nonlocal asleep
        if not asleep:
            from torch._dynamo import eval_frame  # takes seconds to import, and few programs compile

            prior = eval_frame._set_stance(eval_frame.DynamoStance("force_eager"))
            patches.afterwards(functools.partial(eval_frame._set_stance, prior))
            asleep = True
            warnings.warn("torch.compile compiles nothing in a simulation: the code runs eagerly", stacklevel=2)
        return _compile(*args, **kwargs)

    patches.everywhere(torch, "compile", compile)
    patches.set(torch.compiler, "cudagraph_mark_step_begin", lambda: None)  # there are no graphs of a compiler
