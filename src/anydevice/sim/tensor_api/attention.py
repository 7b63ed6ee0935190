"""`scaled_dot_product_attention`: the kernels that a CUDA device has to choose from, and the CPU has not."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim import mismatch
from anydevice.sim.place import device_of
from anydevice.sim.simulation import Simulation


def install(patches: Patches, simulation: Simulation) -> None:
    """Wrap the function."""
    patches.everywhere(
        torch.nn.functional,
        "scaled_dot_product_attention",
        _wrapped(torch.nn.functional.scaled_dot_product_attention),
    )


@functools.cache
def _wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        together(query, key, value)
        if device_of(query).type == "cpu" or torch._C._get_math_sdp_enabled():
            return original(query, key, value, *args, **kwargs)
        if device_of(query).type == "cuda" and not fused(query.dtype):
            raise RuntimeError("No available kernel. Aborting execution.")
        with _by_mathematics():
            return original(query, key, value, *args, **kwargs)

    return call


def together(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
    """The three are on one device (ATen/native/transformers/attention.cpp, `validate_sdpa_input`)."""
    at = [device_of(item) for item in (query, key, value)]
    if not at[0] == at[1] == at[2]:
        text = (
            f"Expected query, key, and value to have the same device type, but got query.device: {at[0]} "
            f"key.device: {at[1]} and value.device: {at[2]} instead."
        )
        names = ("query", "key", "value")
        given = [mismatch.Operand(*item) for item in zip(names, (query, key, value), at, strict=True)]
        raise mismatch.annotate(RuntimeError(text), given)


def fused(dtype: torch.dtype) -> bool:
    """Is a fused kernel for `dtype` allowed? Flash and cuDNN compute in half precision only

    (ATen/native/transformers/cuda/sdp_utils.cpp).
    """
    if torch._C._get_mem_efficient_sdp_enabled():
        return dtype in (torch.float16, torch.bfloat16, torch.float32)
    cudnn = getattr(torch._C, "_get_cudnn_sdp_enabled", lambda: False)()
    return (torch._C._get_flash_sdp_enabled() or cudnn) and dtype in (torch.float16, torch.bfloat16)


@contextmanager
def _by_mathematics() -> Iterator[None]:
    """What the CPU has not is computed step by step, to the same result."""
    torch._C._set_sdp_use_math(True)
    try:
        yield
    finally:
        torch._C._set_sdp_use_math(False)
