"""A forked child may not use an accelerator that its parent has used."""

from __future__ import annotations

import os

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.dispatch import Dispatcher, flatten
from anydevice.sim.place import device_of
from anydevice.sim.simulation import Simulation, active


class _Forked(Dispatcher):
    """Lets operators on the CPU pass, and views, which need no device; the driver is lost to all others."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if not _is_view(func):
            for value in flatten(args, kwargs or {}):
                if isinstance(value, torch.Tensor) and device_of(value).type == self.simulation.world.device_type:
                    raise self.simulation.lost()
        return super().__torch_dispatch__(func, types, args, kwargs)


def install(patches: Patches, simulation: Simulation) -> None:
    """Let `_is_in_bad_fork` of the back end answer."""
    for kind in ("cuda", "xpu", "mps"):
        module = getattr(torch, kind)
        if hasattr(module, "_is_in_bad_fork"):
            mine = simulation.world.device_type == kind
            patches.set(module, "_is_in_bad_fork", lambda mine=mine: mine and simulation.forked)


def _is_view(func: torch._ops.OpOverload) -> bool:
    returned = [value.alias_info for value in func._schema.returns]
    return any(alias is not None and not alias.is_write for alias in returned)


def _after_fork() -> None:
    simulation = active()
    if simulation is None or not simulation.initialised:
        return
    if hasattr(getattr(torch, simulation.world.device_type or "cpu"), "_lazy_init"):  # MPS has no such check
        simulation.forked = True
        simulation.dispatcher.__class__ = _Forked


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
