"""Collectives of `torch.distributed`: what the accelerator's library refuses, and what Gloo, which does its work, lacks.

C++ code such as the reducer of DistributedDataParallel comes here too: it goes through the same operators.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from anydevice.sim.errors import NotSimulated
from anydevice.sim.operators.registry import operator
from anydevice.sim.parallel.admission import admit

if TYPE_CHECKING:
    from anydevice.sim.plan import Plan
    from anydevice.sim.simulation import Simulation

# RedOpType of torch/csrc/distributed/c10d/Types.hpp
_SUM, _AVERAGE, _BITS, _PREMULTIPLIED = 0, 1, {5: "BAND", 6: "BOR", 7: "BXOR"}, 8
_POINTS = frozenset({"c10d::send", "c10d::recv_", "c10d::recv_any_source_"})
_NOT_WHOLE = _POINTS | {"c10d::barrier", "c10d::monitored_barrier_"}


@operator("c10d::*")
def collective(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Gloo can do it; the library that the program asked for must be able to as well."""
    _admit(sim, plan, args, kwargs)
    return plan.func(*args, **kwargs)


@operator("c10d::allreduce_", "c10d::allreduce_coalesced_", "c10d::reduce_")
def reduction(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Gloo has no average: it is a sum, divided."""
    library = _admit(sim, plan, args, kwargs)
    named = _named(plan, args, kwargs)
    if library is None or not _is_average(library, named):
        return plan.func(*args, **kwargs)
    out = plan.func(**{**named, "reduce_op": torch.classes.c10d.ReduceOp()})
    _wait(out)
    group = _group(named)
    for tensor in named["tensors"]:
        if plan.func._schema.name != "c10d::reduce_" or group.rank() == named["root_rank"]:
            _divide(tensor, group.size())
    return out


@operator("c10d::reduce_scatter_", "c10d::_reduce_scatter_base_", "c10d::reduce_scatter_tensor_coalesced_")
def reduce_scatter(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Not in every Gloo: all of it is reduced everywhere, and each rank keeps its part."""
    library = _admit(sim, plan, args, kwargs)
    named = _named(plan, args, kwargs)
    if library is None:
        return plan.func(*args, **kwargs)
    average = _is_average(library, named)
    group = _group(named)
    outputs = _list(named.get("output_tensors", named.get("output_tensor", named.get("outputs"))))
    inputs = _list(named.get("input_tensors", named.get("input_tensor", named.get("inputs"))))
    work = None
    for output, given in zip(outputs, inputs, strict=True):
        if not isinstance(given, (list, tuple)):
            if output.dtype != given.dtype:
                raise TypeError("input tensor must be the same type as the output tensor.")
            if given.numel() != output.numel() * group.size():
                raise ValueError("input tensor must be the same size as output size times world size")
        whole = torch.stack(tuple(given)) if isinstance(given, (list, tuple)) else given.clone()
        options = torch._C._distributed_c10d.AllreduceOptions()
        options.reduceOp = _operation(named)
        work = group.allreduce([whole], options)
        work.wait()
        mine = whole.view(-1).chunk(group.size())[group.rank()].view(output.shape)
        output.copy_(mine)
        if average:
            _divide(output, group.size())
    return _result(plan, work, outputs)


@operator("c10d::_allgather_base_", "c10d::allgather_into_tensor_coalesced_")
def gather_into_one(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Gloo looks at the first dimension; the libraries only count elements (`_allgather_base` of ProcessGroupNCCL.cpp)."""
    library = _admit(sim, plan, args, kwargs)
    if library is None:
        return plan.func(*args, **kwargs)
    named = _named(plan, args, kwargs)
    size = _group(named).size()
    for name in ("output_tensor", "input_tensor", "outputs", "inputs"):
        if name in named:
            value = named[name]
            named[name] = [t.view(-1) for t in value] if isinstance(value, (list, tuple)) else value.view(-1)
    outputs = _list(named.get("output_tensor", named.get("outputs")))
    for output, given in zip(outputs, _list(named.get("input_tensor", named.get("inputs"))), strict=True):
        if output.dtype != given.dtype:
            raise TypeError("output tensor must have the same type as input tensor")
        if given.numel() * size != output.numel():
            raise ValueError("output tensor size must be equal to world_size times input tensor size")
    out = plan.func(**named)
    return (args[0], out[1]) if isinstance(out, tuple) else out


@operator("c10d::alltoall_")
def all_to_all(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Gloo has it for one tensor only: they are laid end to end."""
    library = _admit(sim, plan, args, kwargs)
    if library is None:
        return plan.func(*args, **kwargs)
    named = _named(plan, args, kwargs)
    outputs, inputs = named["output_tensors"], named["input_tensors"]
    given = torch.cat([tensor.reshape(-1) for tensor in inputs])
    sizes, wanted = [tensor.numel() for tensor in inputs], [tensor.numel() for tensor in outputs]
    taken = given.new_empty(sum(wanted))
    work = _group(named).alltoall_base(taken, given, wanted, sizes)
    work.wait()
    for output, part in zip(outputs, taken.split(wanted), strict=True):
        output.copy_(part.view(output.shape))
    return _result(plan, work, outputs)


@operator("c10d::recv_any_source_")
def receive_from_any(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The libraries must know whom they hear (torch/csrc/distributed/c10d/Backend.hpp)."""
    library = _admit(sim, plan, args, kwargs)
    if library is not None:
        raise RuntimeError(f"Backend {library} does not support recvAnysource")
    return plan.func(*args, **kwargs)


def _admit(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """The library of the accelerator that runs this; None where it is one that runs here just so."""
    named = _named(plan, args, kwargs)
    if "process_group" not in named:
        return None
    name = plan.func._schema.name
    return admit(
        sim, _group(named), list(_tensors(named.values())), whole=name not in _NOT_WHOLE, strided=name in _POINTS
    )


def _is_average(library: str, named: dict[str, Any]) -> bool:
    """Is the reduction an average?

    Raises:
        ValueError: the library does not have this reduction.
    """
    number = named["reduce_op"].op()
    if number in _BITS:
        raise ValueError(f"Cannot use ReduceOp.{_BITS[number]} with {library.upper()}")
    if number == _PREMULTIPLIED:
        raise NotSimulated("ReduceOp.PREMUL_SUM", "multiply the tensor, and use ReduceOp.SUM")
    return bool(number == _AVERAGE)


def _operation(named: dict[str, Any]) -> Any:
    """The reduction for Gloo, by its number: C++ hands out no object that Python could use."""
    operations = torch._C._distributed_c10d.ReduceOp
    number = named["reduce_op"].op()
    if number == _AVERAGE:
        return operations.SUM
    return next(op for op in (operations.SUM, operations.PRODUCT, operations.MIN, operations.MAX) if int(op) == number)


def _divide(tensor: torch.Tensor, size: int) -> None:
    if tensor.is_floating_point() or tensor.is_complex():
        tensor.div_(size)
    else:
        tensor.div_(size, rounding_mode="trunc")


def _named(plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return {**dict(zip(plan.names, args, strict=False)), **kwargs}


def _group(named: dict[str, Any]) -> Any:
    return torch._C._distributed_c10d.ProcessGroup.unbox(named["process_group"])


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def _wait(out: Any) -> None:
    work = out[1] if isinstance(out, tuple) else out
    torch._C._distributed_c10d.Work.unbox(work).wait()


def _result(plan: Plan, work: Any, outputs: Sequence[torch.Tensor]) -> Any:
    """What the schema wants: the work, and with some operators the tensors that it has written to."""
    done = (_done() if work is None else work).boxed()
    returns = plan.func._schema.returns
    if len(returns) == 1:
        return done
    return (outputs[0] if str(returns[0].type) == "Tensor" else list(outputs)), done


@functools.cache
def _done() -> Any:
    future: Any = torch.futures.Future()
    future.set_result(None)
    return torch._C._distributed_c10d._create_work_from_future(future)
