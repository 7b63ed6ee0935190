"""`torch.fft` in half precision, which cuFFT has for sizes that are powers of two, and the CPU has not."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.place import device_of
from anydevice.sim.simulation import Simulation

_ALONG_ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
_ALONG_TWO = ("fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2")
_ALONG_MANY = ("fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn")
_WIDE = {torch.float16: torch.float32, torch.complex32: torch.complex64}
_NARROW = {torch.float32: torch.float16, torch.complex64: torch.complex32}


def install(patches: Patches, simulation: Simulation) -> None:
    """Wrap the transforms, where the simulated device is one of CUDA."""
    if simulation.world.device_type != "cuda":
        return
    for names, dims in ((_ALONG_ONE, -1), (_ALONG_TWO, (-2, -1)), (_ALONG_MANY, None)):
        for name in names:
            patches.everywhere(torch.fft, name, _in_half(getattr(torch.fft, name), name, dims))


@functools.cache
def _in_half(original: Callable[..., Any], name: str, default: int | tuple[int, ...] | None) -> Callable[..., Any]:
    size_name, dim_name = ("n", "dim") if default == -1 else ("s", "dim")

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        data = args[0] if args else kwargs.get("input")
        if not isinstance(data, torch.Tensor) or data.dtype not in _WIDE or device_of(data).type != "cuda":
            return original(*args, **kwargs)
        given = {**dict(zip(("input", size_name, dim_name, "norm"), args, strict=False)), **kwargs}
        _check(signal_sizes(name, data, given.get(size_name), given.get(dim_name, default)))
        given["input"] = data.to(_WIDE[data.dtype])
        out = original(**given)
        return out.to(_NARROW[out.dtype])

    return call


def signal_sizes(name: str, data: torch.Tensor, sizes: Any, dims: Any) -> list[int]:
    """The size of the transformed dimensions (ATen/native/SpectralOps.cpp, `canonicalize_fft_shape_and_dim_args`)."""
    asked: Sequence[int] | None = [sizes] if isinstance(sizes, int) else sizes
    if dims is None:
        dims = range(-len(asked), 0) if asked is not None else range(-data.dim(), 0)
    along = [dims] if isinstance(dims, int) else list(dims)
    found = [data.shape[dim] for dim in along] if asked is None else list(asked)
    found = [data.shape[dim] if size == -1 else size for size, dim in zip(found, along, strict=True)]
    if asked is None and name.startswith(("irfft", "hfft")):
        found[-1] = 2 * (found[-1] - 1)
    return found


def _check(sizes: list[int]) -> None:
    """Raise what ATen/native/cuda/CuFFTPlanCache.h says of other sizes than powers of two."""
    if any(size <= 0 or size & (size - 1) for size in sizes):
        raise RuntimeError(
            "cuFFT only supports dimensions whose sizes are powers of two when computing in half precision, "
            f"but got a signal size of{sizes}"
        )
