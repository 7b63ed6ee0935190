"""The operators of `op_db`, each run in the simulated world `cuda` and on the CPU, and what is not the same."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_flatten

from anydevice.sim import simulate
from databases.comparing import SEED, Answer, Verdict, answer, copied, copied_with_stray, faked, same, tensors_in

# their results are memory as it was found
UNDEFINED = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "empty_permuted", "resize_")
# the tensors after the first tell the host something, and must be there
ON_HOST = ("tensor_split",)


def full_name(info: OpInfo) -> str:
    """`name.variant`, which is unique in the database."""
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else str(info.name)


def database() -> dict[str, OpInfo]:
    """The operators that run on a CPU, by name."""
    return {full_name(info): info for info in op_db if info.supported_dtypes("cpu")}


def dtype_for(info: OpInfo) -> torch.dtype:
    """float32, or the first dtype by name where the operator has no float32."""
    dtypes = info.supported_dtypes("cpu")
    return torch.float32 if torch.float32 in dtypes else min(dtypes, key=str)


def samples_of(info: OpInfo, dtype: torch.dtype, most: int) -> list[SampleInput]:
    """At most `most` samples (0: all), spread over those there are."""
    grad = info.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    torch.manual_seed(SEED)
    found = list(info.sample_inputs("cpu", dtype, requires_grad=grad))
    step = max(1, -(-len(found) // most)) if most else 1
    return found[::step]


def names_device(sample: SampleInput) -> bool:
    """Does anything in the sample say on which device its result is?"""
    leaves = tree_flatten((sample.input, sample.args, sample.kwargs))[0]
    return any(isinstance(leaf, (torch.Tensor, torch.device)) or leaf in ("cpu", "cpu:0") for leaf in leaves)


def function_of(info: OpInfo) -> Callable[..., Any]:
    """What a program would call now: the function of that name, which a simulation may have replaced."""
    owner, _, last = info.name.rpartition(".")
    try:
        found = getattr(functools.reduce(getattr, owner.split(".") if owner else (), torch), last)
    except AttributeError:
        return info.op  # type: ignore[no-any-return]
    return found if inspect.unwrap(found) is inspect.unwrap(info.op) else info.op  # type: ignore[no-any-return]


def run(info: OpInfo, sample: SampleInput, device: str) -> tuple[Any, list[torch.Tensor]]:
    """(result, its leaves that want a gradient) of one sample on `device`."""
    others = "cpu" if info.name in ON_HOST else device
    given = (copied(sample.input, device), *copied((sample.args, sample.kwargs), others))
    torch.manual_seed(SEED)
    out = function_of(info)(given[0], *given[1], **given[2])
    return sample.output_process_fn_grad(out), [leaf for leaf in tensors_in(given) if leaf.requires_grad]


def gradients(out: Any, leaves: list[torch.Tensor]) -> list[torch.Tensor | None]:
    """The gradients of a weighted sum of all results."""
    outs = [item for item in tensors_in(out) if item.requires_grad]
    if not outs or not leaves:
        return []
    weights = [(torch.ones_like(item.detach()) * 0.5) for item in outs]
    return list(torch.autograd.grad(outs, leaves, weights, allow_unused=True))


@dataclass
class Outcome:
    """A run: its result and gradients, where they were, or what it raised."""

    result: list[torch.Tensor] = field(default_factory=list)
    grads: list[torch.Tensor | None] = field(default_factory=list)
    devices: set[str] = field(default_factory=set)
    grad_devices: set[str] = field(default_factory=set)
    error: Exception | None = None
    grad_error: Exception | None = None


def outcome(info: OpInfo, sample: SampleInput, device: str) -> Outcome:
    """Run forward and backward on `device`."""
    this = Outcome()
    try:
        out, leaves = run(info, sample, device)
        this.result = tensors_in(out)
        this.devices = {str(item.device) for item in this.result}
    except Exception as error:
        this.error = error
        return this
    try:
        this.grads = gradients(out, leaves)
        this.grad_devices = {str(item.device) for item in this.grads if item is not None}
    except Exception as error:
        this.grad_error = error
    return this


def compare(info: OpInfo, samples: list[SampleInput], verdict: Verdict) -> None:
    """Forward and backward against the CPU."""
    with simulate("cuda"):
        simulated = [outcome(info, sample, "cuda:0") for sample in samples]
    values = info.name not in UNDEFINED
    for sample, there in zip(samples, simulated, strict=True):
        here = outcome(info, sample, "cpu")
        if here.error is not None:
            continue  # the database's own trouble on this machine
        verdict.compared["forward"] += 1
        if there.error is not None:
            verdict.fail("forward", f"{type(there.error).__name__}: {there.error}")
            continue
        if there.devices - {"cuda:0" if names_device(sample) else "cpu"}:
            verdict.fail("forward", f"results on {', '.join(sorted(there.devices))}")
        difference = same(there.result, here.result, values=values)
        if difference:
            verdict.fail("forward", difference)
        if here.grad_error is not None or not here.grads:
            continue
        verdict.compared["backward"] += 1
        if there.grad_error is not None:
            verdict.fail("backward", f"{type(there.grad_error).__name__}: {there.grad_error}")
            continue
        if there.grad_devices - {"cuda:0"}:
            verdict.fail("backward", f"gradients on {', '.join(sorted(there.grad_devices))}")
        difference = same(there.grads, here.grads, values=values)
        if difference:
            verdict.fail("backward", difference)


def answer_of(info: OpInfo, given: tuple[Any, Any, Any]) -> Answer:
    """What a call of the operator with these arguments answers."""
    with torch.no_grad():
        return answer(lambda: function_of(info)(given[0], *given[1], **given[2]))


def fake_answer(info: OpInfo, sample: SampleInput, stray: int | None) -> Answer:
    """What FakeTensorMode says of a sample with one tensor on the CPU."""
    mode = FakeTensorMode()
    given = faked((sample.input, sample.args, sample.kwargs), mode, stray)
    with mode:
        return answer_of(info, given)


def simulated_answer(info: OpInfo, sample: SampleInput, stray: int) -> Answer:
    """What the simulator says of a sample with one tensor on the CPU."""
    return answer_of(info, copied_with_stray((sample.input, sample.args, sample.kwargs), "cuda:0", stray))


def strays(sample: SampleInput) -> Iterator[int]:
    """The numbers of the tensors that are moved to the CPU: those with dimensions, where there is another tensor."""
    tensors = tensors_in((sample.input, sample.args, sample.kwargs))
    if len(tensors) < 2 or any(tensor.layout is not torch.strided for tensor in tensors):
        return
    yield from (number for number, tensor in enumerate(tensors) if tensor.dim() > 0)


def compare_mixed(info: OpInfo, samples: list[SampleInput], verdict: Verdict) -> None:
    """One tensor on the CPU: does the simulator refuse it just where FakeTensorMode does?"""
    cases: list[tuple[SampleInput, int, Answer]] = []
    for sample in samples if info.name not in ON_HOST else ():
        if any(strays(sample)) and fake_answer(info, sample, None).kind == "runs":
            cases += [(sample, stray, fake_answer(info, sample, stray)) for stray in strays(sample)]
    with simulate("cuda"):
        answers = [simulated_answer(info, sample, stray) for sample, stray, _ in cases]
    for (_, stray, expected), found in zip(cases, answers, strict=True):
        verdict.agree(f"tensor {stray}", found, expected)


def examine(name: str, most: int) -> Verdict:
    """Check one operator of the database."""
    info = database()[name]
    verdict = Verdict(name)
    samples = samples_of(info, dtype_for(info), most)
    compare(info, samples, verdict)
    compare_mixed(info, samples, verdict)
    return verdict
