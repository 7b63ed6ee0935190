"""The operators of `op_db`, each run in the simulated world `cuda` and on the CPU, and what is not the same."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_flatten

from anydevice.sim import simulate
from databases.comparing import SEED, Answer, Verdict, answer, copied, copied_with_stray, faked, tensors_in, thinned
from databases.outcome import Outcome, agree

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
    return thinned(found, most)


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


def outcome(info: OpInfo, sample: SampleInput, device: str) -> Outcome:
    """Run forward and backward on `device`."""
    this = Outcome()
    try:
        out, leaves = run(info, sample, device)
        this.forward(tensors_in(out))
    except Exception as error:
        this.error = error
        return this
    try:
        this.backward(out, leaves)
    except Exception as error:
        this.grad_error = error
    return this


def compare(info: OpInfo, samples: list[SampleInput], verdict: Verdict) -> None:
    """Forward and backward against the CPU."""
    with simulate("cuda"):
        simulated = [outcome(info, sample, "cuda:0") for sample in samples]
    values = info.name not in UNDEFINED
    for sample, there in zip(samples, simulated, strict=True):
        device = "cuda:0" if names_device(sample) else "cpu"
        agree(verdict, there, outcome(info, sample, "cpu"), device=device, values=values)


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
