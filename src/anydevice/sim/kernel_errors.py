"""Where the CPU's kernel refuses what an accelerator's does, or says it otherwise."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch

from anydevice.sim.asked import LOOSE
from anydevice.sim.errors import AcceleratorError
from anydevice.sim.mismatch import annotate, operands
from anydevice.sim.place import CPU

if TYPE_CHECKING:
    from anydevice.sim.plan import Plan
    from anydevice.sim.simulation import Simulation

_LACKS_KERNEL = re.compile(r"not implemented for '(Half|BFloat16|ComplexHalf)'|Unsupported dtype (Half|BFloat16)")
_WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}

# Kernels that read positions or probabilities from device memory: a wrong one stops the kernel, on an accelerator
# (`CUDA_KERNEL_ASSERT` in ATen/native/cuda/{Indexing,ScatterGatherKernel,IndexKernel,Embedding,EmbeddingBag,Loss,
# NLLLoss2d,MultiMarginLoss,MultiLabelMarginCriterion,TensorCompare}.cu).
_ASSERTS = frozenset(
    "aten::" + name
    for name in [
        "_embedding_bag",
        "_embedding_bag_forward_only",
        "_index_put_impl_",
        "_unsafe_index",
        "_unsafe_index_put",
        "binary_cross_entropy",
        "binary_cross_entropy_backward",
        "embedding",
        "embedding_dense_backward",
        "gather",
        "index",
        "index_add",
        "index_add_",
        "index_copy",
        "index_copy_",
        "index_fill",
        "index_fill_",
        "index_put",
        "index_put_",
        "index_reduce",
        "index_reduce_",
        "index_select",
        "multi_margin_loss",
        "multilabel_margin_loss_forward",
        "multinomial",
        "nll_loss2d_forward",
        "nll_loss_forward",
        "put",
        "put_",
        "scatter",
        "scatter_",
        "scatter_add",
        "scatter_add_",
        "scatter_reduce",
        "scatter_reduce_",
        "take",
    ]
)
_BY_VALUE = re.compile(
    r"(?<!Dimension )out of (range|bounds)|probability tensor contains|should be between 0 and 1"
    r"|target out of range|invalid multinomial distribution|Expected idx >= 0|not in the valid range"
)


def answer(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], failure: Exception) -> Any:
    """The result that the accelerator has where the CPU's kernel raised `failure`.

    Raises:
        Exception: `failure`, or what the accelerator says in its place.
    """
    home = next((o.device for o in operands(plan, args, kwargs) if o.device.type not in ("cpu", "meta")), CPU)
    if home == CPU or home is LOOSE:
        raise failure
    text = str(failure)
    if _LACKS_KERNEL.search(text):
        return in_wider_type(sim, plan, args, kwargs, failure)
    if plan.func._schema.name in _ASSERTS and _BY_VALUE.search(text) and "device-side assert" in sim.world.texts:
        raised = annotate(AcceleratorError(sim.world.texts["device-side assert"]), operands(plan, args, kwargs))
        if hasattr(raised, "add_note"):
            raised.add_note(f"the CPU says: {text}")
        raise raised from None
    raise failure


def no_kernel(operator: str, kind: str) -> NotImplementedError:
    """The error of an operator that has no kernel for a `kind` of device (ATen/core/dispatch/OperatorEntry.cpp)."""
    return NotImplementedError(
        f"Could not run '{operator}' with arguments from the '{kind.upper()}' backend. This could be because the operator "
        "doesn't exist for this backend, or was omitted during the selective/custom build process (if using custom "
        "build). If you are a Facebook employee using PyTorch on mobile, please visit https://fburl.com/ptmfixes for "
        "possible resolutions."
    )


def in_wider_type(
    sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], failure: Exception
) -> Any:
    """Compute in float32 what the CPU has no kernel for, and give the results the type that they would have."""
    narrow: list[torch.dtype] = []
    written: list[tuple[torch.Tensor, torch.Tensor]] = []

    def widen(value: Any, *, writes: bool = False) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(widen(item, writes=writes) for item in value) if type(value) in (list, tuple) else value
        if isinstance(value, torch.Tensor) and value.dtype in _WIDER:
            narrow.append(value.dtype)
            wide: torch.Tensor = torch.ops.aten._to_copy.default(value, dtype=_WIDER[value.dtype])
            if writes:
                written.append((value, wide))
            return wide
        if isinstance(value, torch.dtype) and value in _WIDER:
            narrow.append(value)
            return _WIDER[value]
        return value

    with sim.dispatcher:
        wide_args = tuple(widen(a, writes=n in plan.writes) for n, a in zip(plan.names, args, strict=False))
        wide_kwargs = {name: widen(value, writes=name in plan.writes) for name, value in kwargs.items()}
        if not narrow:
            raise failure
        out = plan.func(*wide_args, **wide_kwargs)
        for target, wide in written:
            target.copy_(wide)
        return _narrowed(out, narrow[0], written)


def _narrowed(out: Any, dtype: torch.dtype, written: list[tuple[torch.Tensor, torch.Tensor]]) -> Any:
    if isinstance(out, (list, tuple)):
        items = [_narrowed(item, dtype, written) for item in out]
        return items if isinstance(out, list) else tuple(items)
    if not isinstance(out, torch.Tensor):
        return out
    for target, wide in written:
        if wide is out:
            return target
    return torch.ops.aten._to_copy.default(out, dtype=dtype) if out.dtype is _WIDER[dtype] else out


__all__ = ["answer", "in_wider_type", "no_kernel"]
