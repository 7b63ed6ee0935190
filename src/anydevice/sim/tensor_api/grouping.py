"""Tensors sorted by device, for the `foreach` form of optimizers and of gradient clipping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from anydevice.sim.place import CPU, device_of

if TYPE_CHECKING:
    from anydevice.patching.patches import Patches
    from anydevice.sim.simulation import Simulation

Lists = list[list[Any]]


def install(patches: Patches, sim: Simulation) -> None:
    """Sort by the simulated devices: the C++ function sees that all tensors lie in the host's memory."""
    group = torch._C._group_tensors_by_device_and_dtype

    def grouped(tensorlistlist: Lists, with_indices: bool = False) -> dict[tuple[torch.device, torch.dtype], Any]:
        devices: dict[torch.device, list[int]] = {}
        for number, tensor in enumerate(tensorlistlist[0]):
            device = CPU if tensor is None else device_of(tensor)
            _check(tensorlistlist, number, device)
            devices.setdefault(device, []).append(number)
        out = {}
        for device, numbers in devices.items():
            part = [[tensors[number] for number in numbers] if tensors else [] for tensors in tensorlistlist]
            for (_, dtype), (lists, places) in group(part, True).items():
                out[device, dtype] = (lists, [numbers[place] for place in places] if with_indices else [])
        return out

    patches.set(torch._C, "_group_tensors_by_device_and_dtype", grouped)


def _check(lists: Lists, number: int, device: torch.device) -> None:
    """Only the CPU may hold tensors that go with those of another device: an optimizer's steps (ATen/native/ForeachUtils.h)."""
    for tensors in lists[1:]:
        tensor = tensors[number] if tensors else None
        if tensor is not None and device_of(tensor) not in (device, CPU):
            raise RuntimeError(
                "Tensors of the same index must be on the same device and the same dtype except `step` tensors that can "
                "be CPU and float32/64 notwithstanding"
            )
