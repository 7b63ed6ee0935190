"""Operators without a kernel of their own: what guards them against several devices is the kernel that they call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydevice.sim import mismatch
from anydevice.sim.dispatch import general
from anydevice.sim.operators.registry import operator

if TYPE_CHECKING:
    from anydevice.sim.plan import Plan
    from anydevice.sim.simulation import Simulation

# operator: (the kernel that it calls, what its arguments are called there)
_KERNELS: dict[str, tuple[str, str, dict[str, str]]] = {
    "aten::embedding": ("index_select", "", {"weight": "self", "indices": "index"}),  # ATen/native/Embedding.cpp
    "aten::stack": ("cat", "", {}),  # ATen/native/TensorShape.cpp
    "aten::_stack": ("cat", "", {}),
    "aten::mv": ("addmv", "", {"self": "mat"}),  # ATen/native/Blas.cpp
    "aten::masked_scatter": ("masked_scatter_", "", {}),  # ATen/native/TensorAdvancedIndexing.cpp
    "aten::put": ("put_", "", {}),
    "aten::cholesky_solve": ("_cholesky_solve_helper", "", {"input2": "A"}),  # ATen/native/BatchLinearAlgebra.cpp
    "aten::embedding_renorm": ("embedding_renorm_", "", {}),
}


@operator(*_KERNELS)
def guarded_by_another(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The check of the kernel, then the operator."""
    kernel, overload, names = _KERNELS[plan.func._schema.name]
    given = mismatch.settle(sim, list(mismatch.operands(plan, args, kwargs)))
    if len({operand.device for operand in given}) > 1:
        renamed = [operand._replace(name=names.get(operand.name, operand.name)) for operand in given]
        mismatch.guard(sim, kernel, overload, renamed)
    return general(sim, plan, args, kwargs)
