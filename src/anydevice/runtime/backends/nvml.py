"""NVIDIA's management library, asked through ctypes: it tells about GPUs without starting CUDA in this process.

It does not look at `CUDA_VISIBLE_DEVICES`; `visible` does.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass

_SUCCESS = 0  # nvml.h, NVML_SUCCESS
_LIBRARY = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"


@dataclass(frozen=True)
class Gpu:
    """A GPU as the driver sees it, other processes' use included. Memory is in bytes."""

    name: str
    uuid: str
    capability: tuple[int, int]
    free: int
    total: int


class _MemoryInfo(ctypes.Structure):  # nvml.h, nvmlMemory_t
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def visible() -> list[Gpu] | None:
    """The GPUs that CUDA will number 0, 1, ... in this process; None where that cannot be told.

    CUDA numbers the fastest first, and NVML by place on the bus. Which is which is only certain where all are alike,
    where one of them is chosen by its identifier, or where `CUDA_DEVICE_ORDER=PCI_BUS_ID`.
    """
    there = _all()
    if there is None:
        return None
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    alike = len({(gpu.name, gpu.total) for gpu in there}) <= 1
    ordered = alike or os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if wanted is None:
        return there if ordered else None
    chosen: list[Gpu] = []
    for word in wanted.split(","):
        word = word.strip()
        if word.startswith("GPU-"):
            found = [gpu for gpu in there if gpu.uuid.startswith(word)]
        elif word.isdecimal() and not ordered:
            return None
        else:  # the first entry that means nothing ends the list, says CUDA's programming guide
            found = there[int(word) : int(word) + 1] if word.isdecimal() else []
        if len(found) != 1:
            return None if word.startswith("MIG-") else chosen
        chosen += found
    return chosen


def _all() -> list[Gpu] | None:
    try:
        library = ctypes.CDLL(_LIBRARY)
        if library.nvmlInit_v2() != _SUCCESS:
            return None
    except (OSError, AttributeError):
        return None
    try:
        count = ctypes.c_uint()
        if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != _SUCCESS:
            return None
        found = [_gpu(library, index) for index in range(count.value)]
        return None if None in found else [gpu for gpu in found if gpu is not None]
    except AttributeError:  # a driver that lacks one of these functions
        return None
    finally:
        library.nvmlShutdown()


def _gpu(library: ctypes.CDLL, index: int) -> Gpu | None:
    handle, memory = ctypes.c_void_p(), _MemoryInfo()
    major, minor = ctypes.c_int(), ctypes.c_int()
    name, uuid = ctypes.create_string_buffer(96), ctypes.create_string_buffer(96)
    asked = (
        library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)),
        library.nvmlDeviceGetName(handle, name, 96),
        library.nvmlDeviceGetUUID(handle, uuid, 96),
        library.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor)),
        library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)),
    )
    if any(answer != _SUCCESS for answer in asked):
        return None
    capability = (major.value, minor.value)
    return Gpu(name.value.decode(), uuid.value.decode(), capability, int(memory.free), int(memory.total))
