"""`torch._foreach_*`: an operator on each element of lists, whose elements need not be on one device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from anydevice.sim import mismatch
from anydevice.sim.dispatch import claim, general
from anydevice.sim.operators.registry import operator
from anydevice.sim.place import CPU

if TYPE_CHECKING:
    from anydevice.sim.plan import Plan
    from anydevice.sim.simulation import Simulation


@operator("aten::_foreach_*")
def foreach(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Elements of the same number must agree; where the lists are mixed PyTorch goes through them one by one

    (ATen/native/ForeachUtils.h, `can_use_fast_route`).
    """
    given = mismatch.settle(sim, list(mismatch.operands(plan, args, kwargs)))
    if len({operand.device for operand in given}) <= 1:
        return general(sim, plan, args, kwargs)
    named = {**dict(zip(plan.names, args, strict=False)), **kwargs}
    lists = {name: value for name, value in named.items() if _is_tensor_list(value)}
    homes = []
    copies = plan.func._schema.name in ("aten::_foreach_copy_", "aten::_foreach_copy")
    for number in range(max(map(len, lists.values()), default=0)):
        row = [
            mismatch.Operand(name, value[number], mismatch.device_of(value[number])) for name, value in lists.items()
        ]
        if copies:
            target, source = row
            sim.copied(source.tensor, source.device, target.device, non_blocking=bool(named.get("non_blocking")))
            homes.append(target.device)
            continue
        single = [o for o in given if o.name not in lists and o.name != "scalars"]
        homes.append(mismatch.agree(sim, plan, row + single))
    if "scalars" in named and isinstance(named["scalars"], torch.Tensor):
        _refuse_scalars(mismatch.device_of(named["scalars"]))
    out = plan.func(*args, **kwargs)
    for item, home in zip(out or (), homes, strict=False):
        claim(sim, home, item)
    return out


def _refuse_scalars(device: torch.device) -> None:
    if device != CPU:
        raise RuntimeError(f"Expected scalars to be on CPU, got {device} instead.")  # ForeachUtils.h


def _is_tensor_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and isinstance(value[0], torch.Tensor)
