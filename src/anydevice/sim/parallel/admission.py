"""Whether a group can run a collective on these tensors, and by which library."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import torch
import torch.autograd.graph
import torch.nn.parallel.distributed

from anydevice.sim import mismatch
from anydevice.sim.asked import LOOSE
from anydevice.sim.parallel import communicators
from anydevice.sim.place import device_of

if TYPE_CHECKING:
    from anydevice.sim.simulation import Simulation

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

# library -> the kind of devices that it serves; what else there is (Gloo, MPI) runs here as it is
LIBRARIES = {"nccl": "cuda", "xccl": "xpu"}

# what ncclDataType of torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp does not have
_UNKNOWN_TO_NCCL = {torch.int16: "Short", torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble"}


def library_of(group: Any, kind: str) -> str | None:
    """The library that serves tensors on `kind` of device in this group; None where none does."""
    from torch.distributed import distributed_c10d as c10d

    config: str = c10d._world.pg_backend_config.get(group, "")
    served = dict(pair.split(":", 1) for pair in config.split(",") if ":" in pair)
    return served.get(kind)


def admit(
    sim: Simulation, group: Any, tensors: list[torch.Tensor], *, whole: bool = True, strided: bool = False
) -> str | None:
    """The library of the accelerator that runs this; None where it is one that runs here just so.

    Args:
        sim: the simulation.
        group: the process group.
        tensors: all that take part.
        whole: all processes of the group take part, and use the device of the tensors.
        strided: tensors need not be contiguous.

    Raises:
        RuntimeError: no library of the group serves the device.
        ValueError: the library cannot take these tensors (`check_gpu_single_tensor` of ProcessGroupNCCL.cpp).
        TypeError: nor this dtype.
        torch.distributed.DistBackendError: two processes use one device.
    """
    communicators.begun()
    home = next((device for device in map(device_of, tensors) if device.type not in ("cpu", "meta")), None)
    if home is None and (any(device_of(tensor) is LOOSE for tensor in tensors) or _reducer_asks()):
        home = _where_cpp_means(sim, group)
        if home is not None:
            for tensor in tensors:
                mismatch.put(sim, tensor, home)
    if home is None:
        if tensors and library_of(group, "cpu") is None and library_of(group, str(sim.world.device_type)) is not None:
            raise RuntimeError("No backend type associated with device type cpu")
        return None
    for tensor in tensors:
        if device_of(tensor) is LOOSE:
            mismatch.put(sim, tensor, home)
    library = library_of(group, home.type)
    if library is None:
        raise RuntimeError(f"No backend type associated with device type {home.type}")
    if library not in LIBRARIES:
        return None
    for tensor in tensors:
        _check(tensor, library, home, strided=strided)
    if whole:
        communicators.check(sim, group, library, home)
    return library


def _check(tensor: torch.Tensor, library: str, home: torch.device, *, strided: bool) -> None:
    if device_of(tensor).type != home.type or tensor.is_sparse:
        raise ValueError(f"Tensors must be {home.type.upper()} and dense")
    if not (strided or _is_contiguous(tensor)):
        raise ValueError("Tensors must be contiguous")
    if library == "nccl" and tensor.dtype in _UNKNOWN_TO_NCCL:
        kind = _UNKNOWN_TO_NCCL[tensor.dtype]
        raise TypeError(f"Input tensor data type is not supported for NCCL process group: {kind}")


def _is_contiguous(tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous() or (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last))


def _where_cpp_means(sim: Simulation, group: Any) -> torch.device | None:
    """C++ code has made the tensors, for a group of the accelerator: it means the device of its other tensors."""
    kind = sim.world.device_type
    if kind is None or library_of(group, kind) not in LIBRARIES:
        return None
    return communicators.last_device(group) or sim.devices[sim.current_index]


def _reducer_asks() -> bool:
    """Is it the reducer of DistributedDataParallel, whose books are tensors on what it takes for the device?

    It runs below the forward call of the module and below the autograd engine; the program's own collectives come from
    functions of `torch.distributed`.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return frame.f_code.co_filename in (torch.nn.parallel.distributed.__file__, torch.autograd.graph.__file__)
