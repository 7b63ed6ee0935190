"""Which of PyTorch's indexes `uv pip install --torch-backend=auto` tries, and in which order, so that plans can agree.

uv looks at the driver only; it knows neither compute capability nor what a release was built for.
"""

from __future__ import annotations

from anydevice.doctor.plan.drivers import floor
from anydevice.doctor.plan.kernels import gfx_names
from anydevice.doctor.plan.published import facts
from anydevice.doctor.plan.target import Target
from anydevice.doctor.plan.variant import newness

# The CUDA indexes that uv knows (27), astral-sh/uv@26a9dd4b2125 crates/uv-torch/src/backend.rs LINUX_CUDA_DRIVERS.
_CUDA = (
    *("cu132", "cu130", "cu129", "cu128", "cu126", "cu125", "cu124", "cu123", "cu122", "cu121", "cu120"),
    *("cu118", "cu117", "cu116", "cu115", "cu114", "cu113", "cu112", "cu111", "cu110"),
    *("cu102", "cu101", "cu100", "cu92", "cu91", "cu90", "cu80"),
)


def uv_tries(target: Target) -> tuple[str, ...]:
    """The variants whose indexes uv tries on this machine, first to last."""
    if target.system == "macos":
        return ("cpu",)
    if target.driver is not None:
        floors = ((variant, floor(variant, target.system)) for variant in _CUDA)
        return (*(v for v, found in floors if found is not None and target.driver >= found.driver), "cpu")
    if target.gfx is not None:
        return (*_rocm(target.gfx), "cpu") if target.system == "linux" else ("cpu",)
    return ("xpu",) if target.xpu else ("cpu",)


def _rocm(gfx: str) -> list[str]:
    served = [row["variant"] for row in facts("sm_support")["rocm_gfx"] if gfx in (gfx_names(row["variant"]) or ())]
    return sorted(served, key=newness, reverse=True)
