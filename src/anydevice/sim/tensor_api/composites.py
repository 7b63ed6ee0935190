"""Functions that PyTorch makes of others in C++, and that look at devices on the way: C++ sees but the CPU here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim import mismatch
from anydevice.sim.asked import LOOSE
from anydevice.sim.errors import AcceleratorError
from anydevice.sim.nested import tensors_in
from anydevice.sim.place import CPU, device_of
from anydevice.sim.simulation import Simulation, current

Check = Callable[..., None]


def install(patches: Patches, simulation: Simulation) -> None:
    """Put the checks before the functions."""
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        _precede(patches, torch, name, recurrent)
        patches.set(torch._VF, name, getattr(torch, name))
    _precede(patches, torch, "meshgrid", meshgrid)
    patches.set(torch.functional, "meshgrid", torch.meshgrid)
    _precede(patches, torch, "tensor_split", tensor_split)
    patches.set(torch.Tensor, "tensor_split", _after(tensor_split, torch._C.TensorBase.tensor_split))
    patches.everywhere(torch, "ctc_loss", _with_lengths(torch.ctc_loss))
    for name in ("matrix_rank", "pinv"):
        _precede(patches, torch.linalg, name, functools.partial(tolerances, name))
    patches.everywhere(torch.linalg, "matrix_rank", _with_arguments(torch.linalg.matrix_rank))
    patches.everywhere(torch.nn.functional, "one_hot", _asserting(torch._C._nn.one_hot))


def _precede(patches: Patches, owner: Any, name: str, check: Check) -> None:
    patches.everywhere(owner, name, _after(check, getattr(owner, name)))


@functools.cache
def _after(check: Check, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        check(*args, **kwargs)
        return original(*args, **kwargs)

    return call


@functools.cache
def _with_arguments(original: Callable[..., Any]) -> Callable[..., Any]:
    """A result that C++ made without use of an argument is where the arguments are."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        out = original(*args, **kwargs)
        if isinstance(out, torch.Tensor) and device_of(out) is LOOSE:
            mismatch.put(current(), out, next((device_of(item) for item in tensors_in((*args, *kwargs.values()))), CPU))
        return out

    return call


@functools.cache
def _with_lengths(original: Callable[..., Any]) -> Callable[..., Any]:
    """The mean of `ctc_loss` divides by the lengths, which it takes to the device (ATen/native/LossCTC.cpp)."""

    @functools.wraps(original)
    def call(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(target_lengths, torch.Tensor):
            target_lengths = target_lengths.to(device_of(log_probs))
        return original(log_probs, targets, input_lengths, target_lengths, *args, **kwargs)

    return call


@functools.cache
def _asserting(original: Callable[..., Any]) -> Callable[..., Any]:
    """`one_hot` looks at the values on the CPU only; on a CUDA device the kernel does (ATen/native/Onehot.cpp)."""

    @functools.wraps(original)
    def call(tensor: torch.Tensor, num_classes: int = -1) -> Any:
        try:
            return original(tensor, num_classes)
        except RuntimeError as failure:
            text = current().world.texts.get("device-side assert")
            if text is None or device_of(tensor).type == "cpu" or not str(failure).startswith("Class values must be"):
                raise
            raise AcceleratorError(text) from None

    return call


def recurrent(source: torch.Tensor, *rest: Any, **kwargs: Any) -> None:
    """Input, hidden state and parameters are together (ATen/native/RNN.cpp, `check_attributes`)."""
    packed = rest and isinstance(rest[0], torch.Tensor) and isinstance(rest[2], (list, tuple))
    hidden, parameters = (rest[1], rest[2]) if packed else (rest[0], rest[1])
    home = device_of(source)
    states = hidden if isinstance(hidden, (list, tuple)) else (hidden,)
    for what, tensors in (("hidden", states), ("parameter", parameters)):
        for tensor in tensors:
            if device_of(tensor) != home:
                given = [mismatch.Operand("input", source, home), mismatch.Operand(what, tensor, device_of(tensor))]
                text = (
                    f"Input and {what} tensors are not at the same device, "
                    f"found input tensor at {home} and {what} tensor at {device_of(tensor)}"
                )
                raise mismatch.annotate(RuntimeError(text), given)


def tolerances(name: str, source: torch.Tensor, *args: Any, **kwargs: Any) -> None:
    """A tolerance that is a tensor is with the matrix (ATen/native/LinearAlgebraUtils.h, `checkSameDevice`)."""
    named = {"atol": args[0]} if args else {}
    named |= {"atol" if key == "tol" else key: value for key, value in kwargs.items()}
    for key in ("atol", "rtol"):
        value = named.get(key)
        if isinstance(value, torch.Tensor) and device_of(value) != device_of(source):
            text = (
                f"torch.linalg.{name}: Expected {key} and input tensors to be on the same device, "
                f"but got {key} on {device_of(value)} and input on {device_of(source)}"
            )
            given = [
                mismatch.Operand("input", source, device_of(source)),
                mismatch.Operand(key, value, device_of(value)),
            ]
            raise mismatch.annotate(RuntimeError(text), given)


def meshgrid(*tensors: Any, **kwargs: Any) -> None:
    """All tensors are on one device (ATen/native/TensorShape.cpp)."""
    given = [mismatch.Operand("tensors", item, device_of(item)) for item in tensors_in(tensors)]
    if any(operand.device != given[0].device for operand in given):
        raise mismatch.annotate(RuntimeError("meshgrid expects all tensors to have the same device"), given)


def tensor_split(self: torch.Tensor, *args: Any, **kwargs: Any) -> None:
    """Where to split is said on the CPU (ATen/native/TensorShape.cpp)."""
    for tensor in tensors_in((*args, *kwargs.values())):
        device = device_of(tensor)
        if device.type not in ("cpu", "meta"):
            given = [mismatch.Operand("tensor_indices_or_sections", tensor, device)]
            text = f"tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {device}"
            raise mismatch.annotate(RuntimeError(text), given)
