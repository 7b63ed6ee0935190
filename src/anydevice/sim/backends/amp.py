"""Mixed precision: what `torch.autocast` does to tensors of a simulated device.

PyTorch casts below Python, by the key of a device type that our tensors do not carry. So the functions it knows are
wrapped here: the lists are those of ATen/autocast_mode.h, which CUDA, XPU and MPS share.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.nested import tensors_in
from anydevice.sim.place import device_of
from anydevice.sim.simulation import Simulation

LOWER = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convolution",
    "prelu",
    "addmm",
    "addmv",
    "addr",
    "matmul",
    "__matmul__",
    "__rmatmul__",
    "einsum",
    "mm",
    "mv",
    "vecdot",
    "linear",
    "addbmm",
    "baddbmm",
    "bmm",
    "chain_matmul",
    "multi_dot",
    "lstm_cell",
    "gru_cell",
    "rnn_tanh_cell",
    "rnn_relu_cell",
    "scaled_dot_product_attention",
    "lstm",
    "gru",
    "rnn_tanh",
    "rnn_relu",
]
FLOAT32 = [
    "acos",
    "asin",
    "cosh",
    "erfinv",
    "exp",
    "expm1",
    "log",
    "log10",
    "log2",
    "log1p",
    "reciprocal",
    "rsqrt",
    "sinh",
    "tan",
    "pow",
    "__pow__",
    "__rpow__",
    "softplus",
    "layer_norm",
    "native_layer_norm",
    "rms_norm",
    "group_norm",
    "frobenius_norm",
    "nuclear_norm",
    "cosine_similarity",
    "poisson_nll_loss",
    "cosine_embedding_loss",
    "nll_loss",
    "nll_loss_nd",
    "nll_loss2d",
    "cross_entropy_loss",
    "hinge_embedding_loss",
    "kl_div",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "mse_loss",
    "margin_ranking_loss",
    "multilabel_margin_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "multi_margin_loss",
    "binary_cross_entropy_with_logits",
    "dist",
    "pdist",
    "cdist",
    "renorm",
    "logsumexp",
    "norm",
    "upsample_nearest1d",
    "_upsample_nearest_exact1d",
    "upsample_nearest2d",
    "_upsample_nearest_exact2d",
    "upsample_nearest3d",
    "_upsample_nearest_exact3d",
    "upsample_linear1d",
    "upsample_bilinear2d",
    "_upsample_bilinear2d_aa",
    "upsample_trilinear3d",
    "upsample_bicubic2d",
    "_upsample_bicubic2d_aa",
]
FLOAT32_UNLESS_ASKED = ["prod", "softmax", "log_softmax", "cumprod", "cumsum", "vector_norm", "matrix_norm", "sum"]
WIDEST = [
    "addcdiv",
    "addcmul",
    "atan2",
    "bilinear",
    "cross",
    "dot",
    "vdot",
    "grid_sampler",
    "index_put",
    "tensordot",
    "scatter_add",
    "cat",
    "concat",
    "concatenate",
    "stack",
]
BANNED = ["binary_cross_entropy"]

Policy = Callable[[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def _eligible(value: object, kind: str) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.is_floating_point()
        and value.dtype is not torch.float64
        and device_of(value).type == kind
    )


def _cast(value: Any, kind: str, dtype: torch.dtype) -> Any:
    if _eligible(value, kind):
        return value.to(dtype)
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(_cast(item, kind, dtype) for item in value)
    return value


def _run(dtype: torch.dtype, kind: str, original: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    return original(*_cast(args, kind, dtype), **{key: _cast(value, kind, dtype) for key, value in kwargs.items()})


def lower(kind: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """In the dtype of the context."""
    return _run(torch.get_autocast_dtype(kind), kind, original, args, kwargs)


def float32(kind: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """In float32."""
    return _run(torch.float32, kind, original, args, kwargs)


def float32_unless_asked(kind: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """In float32, but for a dtype that the caller asks for."""
    if kwargs.get("dtype") is not None or any(isinstance(arg, torch.dtype) for arg in args):
        return original(*args, **kwargs)
    return float32(kind, original, args, kwargs)


def widest(kind: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """In the widest dtype among the arguments."""
    found = {item.dtype for item in tensors_in((*args, *kwargs.values())) if _eligible(item, kind)}
    if torch.float32 not in found:
        return original(*args, **kwargs)
    return float32(kind, original, args, kwargs)


def banned(kind: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Refused (ATen/autocast_mode.cpp, `binary_cross_entropy_banned`)."""
    if any(device_of(item).type == kind for item in tensors_in(args)):
        raise RuntimeError(
            "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
            "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
            "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
            "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
            "safe to autocast."
        )
    return original(*args, **kwargs)


_POLICIES: tuple[tuple[Policy, list[str]], ...] = (
    (lower, LOWER),
    (float32, FLOAT32),
    (float32_unless_asked, FLOAT32_UNLESS_ASKED),
    (widest, WIDEST),
    (banned, BANNED),
)


def _wrapped(original: Callable[..., Any], policy: Policy, kind: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.is_autocast_enabled(kind):
            return policy(kind, original, args, kwargs)
        if torch.is_autocast_enabled("cpu") and any(device_of(item).type == kind for item in tensors_in(args)):
            with _cpu_autocast_off():  # below, the tensors look like the CPU's
                return original(*args, **kwargs)
        return original(*args, **kwargs)

    return call


class _cpu_autocast_off:
    def __enter__(self) -> None:
        torch.set_autocast_enabled("cpu", False)

    def __exit__(self, *exception: object) -> None:
        torch.set_autocast_enabled("cpu", True)


def install(patches: Patches, simulation: Simulation) -> None:
    """Wrap the functions; say that the scaler and the context are of use where the world has devices for them."""
    kind = simulation.world.device_type
    common = torch.cuda.amp.common
    patches.everywhere(common, "amp_definitely_not_available", lambda: kind != "cuda")
    if kind is None:
        return
    owners = (torch, torch.Tensor, torch._C._nn, torch._VF, torch.linalg, torch.nn.functional)
    for policy, names in _POLICIES:
        for name in names:
            for owner in owners:
                original = getattr(owner, name, None)
                if original is None or (owner in (torch.nn.functional, torch._VF) and not _is_c(original)):
                    continue
                wrapped = _wrapped(original, policy, kind)
                patches.set(owner, name, wrapped) if owner is torch.Tensor else patches.everywhere(owner, name, wrapped)


def _is_c(function: object) -> bool:
    """Is it written in C? What is written in Python calls the ones that are."""
    return not hasattr(function, "__code__")
