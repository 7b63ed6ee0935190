"""What CUDA has no kernel for and the CPU has: products of integer matrices, and some operators altogether."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from anydevice.sim import device_checks
from anydevice.sim.dispatch import general
from anydevice.sim.kernel_errors import no_kernel
from anydevice.sim.operators.registry import operator
from anydevice.sim.place import device_of

if TYPE_CHECKING:
    from anydevice.sim.plan import Plan
    from anydevice.sim.simulation import Simulation

# the names under which the kernels refuse a type (ATen/native/cuda/Blas.cpp, LinearAlgebra.cu)
_KERNELS = {
    "mm": "addmm_cuda", "addmm": "addmm_cuda", "addmm_": "addmm_cuda", "bmm": "baddbmm_cuda",
    "baddbmm": "baddbmm_cuda", "baddbmm_": "baddbmm_cuda", "addmv": "addmv_impl_cuda", "addmv_": "addmv_impl_cuda",
    "dot": "dot", "vdot": "vdot",
}  # fmt: skip
_INTEGERS = {
    torch.uint8: "Byte", torch.int8: "Char", torch.int16: "Short", torch.int32: "Int", torch.int64: "Long",
    torch.bool: "Bool",
}  # fmt: skip


@operator(*(f"aten::{name}" for name in _KERNELS))
def product(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """cuBLAS multiplies floats only."""
    scalar = _INTEGERS.get(args[0].dtype)
    out = general(sim, plan, args, kwargs)
    if scalar is not None and device_of(args[0]).type == "cuda":
        name = plan.func._schema.name.removeprefix("aten::")
        raise NotImplementedError(f"\"{_KERNELS[name]}\" not implemented for '{scalar}'")
    return out


@operator(
    "aten::histogram", "aten::_histogramdd_bin_edges", "aten::_histogramdd_from_bin_cts",
    "aten::_histogramdd_from_bin_tensors",
)  # fmt: skip
def without_kernel(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Refused where native_functions.yaml has no kernel for the device."""
    kind = device_of(args[0]).type
    name, overload = plan.func._schema.name, plan.func._schema.overload_name
    if kind in ("cuda", "mps") and not device_checks.has_kernel(name, overload, kind.upper()):
        raise no_kernel(plan.func.name(), kind)
    return general(sim, plan, args, kwargs)
