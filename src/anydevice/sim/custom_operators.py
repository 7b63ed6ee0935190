"""Operators that are not PyTorch's own (`torch.library`, extensions): which of their kernels can run here, and how."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from anydevice.sim import mismatch
from anydevice.sim.errors import NotSimulated
from anydevice.sim.kernel_errors import no_kernel
from anydevice.sim.place import CPU

if TYPE_CHECKING:
    from anydevice.sim.plan import Plan
    from anydevice.sim.simulation import Simulation

_OWN = frozenset(
    {"aten", "prim", "prims", "profiler", "inductor", "quantized", "mkldnn", "mkl", "onednn", "_quantized"}
)
_LINE = re.compile(r"^(\w+): (.*)$", re.MULTILINE)


def is_custom(func: torch._ops.OpOverload) -> bool:
    """Is it an operator of the program, or of a package?"""
    return func.namespace not in _OWN


def custom(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The kernel for the device, where it is written in Python; else the CPU's, where it stands for the device's.

    A kernel in Python makes tensors of its own: these belong to the simulation, unlike what a kernel in C++ does.

    Raises:
        NotImplementedError: there is no kernel for the device.
        NotSimulated: it has a kernel in machine code for the device, and none for the CPU.
    """
    from anydevice.sim.dispatch import claim

    given = mismatch.settle(sim, list(mismatch.operands(plan, args, kwargs)))
    home = next((o.device for o in given if o.device.type not in ("cpu", "meta")), CPU)
    key = home.type.upper()
    kernels = _kernels(plan.func.name())
    mine = kernels.get(key) or kernels.get("CompositeExplicitAutograd")
    if mine is None and kernels.get("CompositeImplicitAutograd") is None:
        raise no_kernel(plan.func.name(), home.type)
    if mine is not None and _is_python(mine):
        with sim.dispatcher:
            out = plan.func.redispatch(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key)), *args, **kwargs)
    elif mine is not None and home != CPU and not (kernels.get("CPU") or kernels.get("CompositeExplicitAutograd")):
        raise NotSimulated(f"the operator {plan.func.name()}, whose only kernel is for {home.type}")
    else:
        out = plan.func(*args, **kwargs)
    claim(sim, home, out)
    return out


def _is_python(registration: str) -> bool:
    return ".py:" in registration or "/dev/null:" in registration  # torch/library.py passes on the caller's line


@cache
def _kernels(name: str) -> dict[str, str]:
    """Dispatch key -> where the kernel for it was registered."""
    found = {}
    for key, rest in _LINE.findall(torch._C._dispatch_dump(name).replace("[alias]", "")):
        found[key] = rest
    return found
