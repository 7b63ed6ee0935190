"""Convolutions compare the types of their arguments, of which the device is a part, in words of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from anydevice.sim import mismatch
from anydevice.sim.dispatch import general
from anydevice.sim.mismatch import Operand
from anydevice.sim.operators.registry import operator

if TYPE_CHECKING:
    from anydevice.sim.plan import Plan
    from anydevice.sim.simulation import Simulation

_SCALARS = {
    torch.float32: "Float", torch.float64: "Double", torch.float16: "Half", torch.bfloat16: "BFloat16",
    torch.uint8: "Byte", torch.int8: "Char", torch.int16: "Short", torch.int32: "Int", torch.int64: "Long",
    torch.bool: "Bool", torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble",
}  # fmt: skip
# the types that Python shows by the name of their class (torch/csrc/Exceptions.cpp, `processErrorMsg`)
_CLASSES = {"Byte", "Char", "Double", "Float", "Int", "Long", "Short", "Half"}


@operator("aten::convolution", "aten::_convolution", "aten::convolution_overrideable")
def convolution(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Input, weight and bias are of one type (ATen/native/Convolution.cpp, `check_input_same_type_as_parameters`)."""
    given = mismatch.settle(sim, list(mismatch.operands(plan, args, kwargs)))
    if len({operand.device for operand in given}) > 1 and not any(o.tensor.is_meta for o in given):
        source = given[0]
        for operand in given[1:]:
            if operand.device.type != source.device.type:
                text = f"Input type ({type_name(source)}) and {operand.name} type ({type_name(operand)}) should be the same"
                if source.device.type == "cpu" and source.tensor.dtype is torch.float32 and operand.name == "weight":
                    text += " or input should be a MKLDNN tensor and weight is a dense tensor"
                raise mismatch.annotate(RuntimeError(text), given)
        mismatch.guard(
            sim, "cudnn_convolution", "", [o._replace(name={"input": "self"}.get(o.name, o.name)) for o in given]
        )
    return general(sim, plan, args, kwargs)


def type_name(operand: Operand) -> str:
    """What C++ calls the type of a tensor: `torch.cuda.FloatTensor`, `MPSFloatType`."""
    scalar = _SCALARS.get(operand.tensor.dtype, "Undefined")
    kind = operand.device.type
    if scalar in _CLASSES and kind in ("cpu", "cuda"):
        return f"torch.{'cuda.' if kind == 'cuda' else ''}{scalar}Tensor"
    return f"{kind.upper()}{scalar}Type"
