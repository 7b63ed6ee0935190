"""Mixed precision on every device: `autocast` and `grad_scaler` in the dtype that the device computes well in."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

from anydevice.runtime.accelerator import current_device
from anydevice.runtime.device import DeviceLike, normalised

# devices whose autocast is worth having in float16 where bfloat16 is emulated: CUDA before compute capability 8.0
_BFLOAT16_SINCE = (8, 0)


def autocast(
    device: DeviceLike | None = None, *, dtype: torch.dtype | None = None, enabled: bool = True
) -> AbstractContextManager[Any]:
    """`torch.autocast` for the type of a device; by default of the current one.

    Args:
        device: a device; only its type matters.
        dtype: bfloat16 by default, where the device computes in it; float16 on MPS and on CUDA before Ampere.
        enabled: False for full precision.
    """
    place = current_device() if device is None else normalised(device)
    context: AbstractContextManager[Any] = torch.autocast(
        place.type, dtype=low_precision(place) if dtype is None else dtype, enabled=enabled
    )
    return context


def low_precision(device: DeviceLike) -> torch.dtype:
    """The 16-bit dtype that a device computes well in: float16 on MPS and on CUDA before Ampere, else bfloat16."""
    place = normalised(device)
    if place.type == "mps":
        return torch.float16  # autocast of MPS takes bfloat16 from macOS 14 and PyTorch 2.6 on only
    if place.type == "cuda" and torch.version.hip is None:
        capability = torch.cuda.get_device_capability(place)
        return torch.bfloat16 if capability >= _BFLOAT16_SINCE else torch.float16
    return torch.bfloat16


def grad_scaler(
    device: DeviceLike | None = None, *, dtype: torch.dtype | None = None, enabled: bool = True, **options: Any
) -> torch.amp.GradScaler:
    """`torch.amp.GradScaler` for a device. It does nothing where the dtype is bfloat16, which needs no scaling.

    Args:
        device: a device; by default the current one.
        dtype: what `autocast` computes in; by default what it chooses for the device.
        enabled: False makes it do nothing.
        options: as `torch.amp.GradScaler` takes them (`init_scale`, `growth_interval`...).
    """
    place = current_device() if device is None else normalised(device)
    needed = (low_precision(place) if dtype is None else dtype) is torch.float16
    return torch.amp.GradScaler(place.type, enabled=enabled and needed, **options)
