"""One operator of PyTorch's own database, run in the simulated world `cuda` and on the CPU, and what is not the same.

`check_operators.py` is the command; this is what it runs in each of its processes.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_flatten, tree_map

from anydevice.sim import simulate

SEED = 20_26
# their results are memory as it was found
UNDEFINED = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "empty_permuted", "resize_")
MISMATCH = (
    "on the same device",
    "same device",
    "Device Propagation",
    "should be the same",
    "should be either on",
    "CPU scalars",
)
# the tensors after the first tell the host something, and must be there
ON_HOST = ("tensor_split",)


@dataclass
class Verdict:
    """What was found of one operator: counts of what was compared, and a line for each failure, by kind of check."""

    name: str
    compared: dict[str, int] = field(default_factory=lambda: {"forward": 0, "backward": 0, "mixed": 0})
    failures: dict[str, list[str]] = field(default_factory=lambda: {"forward": [], "backward": [], "mixed": []})

    def fail(self, check: str, why: str) -> None:
        """Note a failure, each once."""
        why = " ".join(why.split())[:400]
        if why not in self.failures[check]:
            self.failures[check].append(why)


def full_name(info: OpInfo) -> str:
    """`name.variant`, which is unique in the database."""
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else str(info.name)


def database() -> dict[str, OpInfo]:
    """All operators that run on a CPU, by name."""
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


def copied(value: Any, device: str) -> Any:
    """A copy of a sample's arguments on `device`, every tensor a leaf."""

    def one(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            return item.detach().clone().to(device).requires_grad_(item.requires_grad)
        if isinstance(item, torch.device) or item in ("cpu", "cpu:0"):
            return torch.device(device)
        return item

    return tree_map(lambda item: one(item) if isinstance(item, (torch.Tensor, torch.device, str)) else item, value)


def names_device(sample: SampleInput) -> bool:
    """Does anything in the sample say on which device its result is?"""
    leaves = tree_flatten((sample.input, sample.args, sample.kwargs))[0]
    return any(isinstance(leaf, (torch.Tensor, torch.device)) or leaf in ("cpu", "cpu:0") for leaf in leaves)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in nested containers."""
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


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


def same(left: list[Any], right: list[Any], *, values: bool) -> str | None:
    """What differs, None where nothing does."""
    if len(left) != len(right):
        return f"{len(left)} tensors where the CPU gives {len(right)}"
    for a, b in zip(left, right, strict=True):
        if (a is None) != (b is None):
            return "a gradient is missing" if a is None else "a gradient too many"
        if a is None:
            continue
        if values:
            try:
                torch.testing.assert_close(a, b, equal_nan=True)
            except Exception as error:
                return str(error)
        elif (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"{a.shape} {a.dtype} where the CPU gives {b.shape} {b.dtype}"
    return None


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


def faked(sample: SampleInput, mode: FakeTensorMode, stray: int) -> tuple[Any, Any, Any]:
    """The sample as fake tensors of cuda, but for the tensor number `stray`."""
    count = -1

    def one(item: Any) -> Any:
        nonlocal count
        if isinstance(item, torch.Tensor):
            count += 1
            device = "cpu" if count == stray else "cuda:0"
            with mode:
                fake = torch.empty_strided(item.shape, item.stride(), dtype=item.dtype, device=device)
            return fake.requires_grad_(item.requires_grad)
        if isinstance(item, torch.device) or item in ("cpu", "cpu:0"):
            return torch.device("cuda:0")
        return item

    given = (sample.input, sample.args, sample.kwargs)
    return tree_map(lambda item: one(item) if isinstance(item, (torch.Tensor, torch.device, str)) else item, given)  # type: ignore[no-any-return]


def answer(call: Callable[[], Any]) -> tuple[str, str]:
    """(`runs`, `refuses` the devices or `fails` otherwise, the error)."""
    try:
        call()
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        return ("refuses" if any(part in text for part in MISMATCH) else "fails"), text
    return "runs", ""


def fake_answer(info: OpInfo, sample: SampleInput, stray: int) -> tuple[str, str]:
    """What FakeTensorMode says of a sample with one tensor on the CPU."""
    mode = FakeTensorMode()

    def call() -> None:
        given = faked(sample, mode, stray)
        with mode, torch.no_grad():
            function_of(info)(given[0], *given[1], **given[2])

    return answer(call)


def simulated_answer(info: OpInfo, sample: SampleInput, stray: int) -> tuple[str, str]:
    """What the simulator says of a sample with one tensor on the CPU."""
    given = copied((sample.input, sample.args, sample.kwargs), "cuda:0")
    leaves, spec = tree_flatten(given)
    positions = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    leaves[positions[stray]] = leaves[positions[stray]].detach().cpu()
    given = torch.utils._pytree.tree_unflatten(leaves, spec)

    def call() -> None:
        with torch.no_grad():
            function_of(info)(given[0], *given[1], **given[2])

    return answer(call)


def strays(sample: SampleInput) -> Iterator[int]:
    """The numbers of the tensors that are moved to the CPU: those with dimensions, where there is another tensor."""
    tensors = tensors_in((sample.input, sample.args, sample.kwargs))
    if len(tensors) < 2 or any(tensor.layout is not torch.strided for tensor in tensors):
        return
    yield from (number for number, tensor in enumerate(tensors) if tensor.dim() > 0)


def compare_mixed(info: OpInfo, samples: list[SampleInput], verdict: Verdict) -> None:
    """One tensor on the CPU: does the simulator refuse it just where FakeTensorMode does?"""
    cases: list[tuple[SampleInput, int, tuple[str, str]]] = []
    for sample in samples if info.name not in ON_HOST else ():
        if any(strays(sample)) and fake_answer(info, sample, -1)[0] == "runs":
            cases += [(sample, stray, fake_answer(info, sample, stray)) for stray in strays(sample)]
    with simulate("cuda"):
        answers = [simulated_answer(info, sample, stray) for sample, stray, _ in cases]
    for (_, stray, (expected, why)), (found, text) in zip(cases, answers, strict=True):
        if expected == "fails":
            continue  # FakeTensorMode has no answer of its own
        verdict.compared["mixed"] += 1
        if expected != found:
            verdict.fail("mixed", f"tensor {stray}: {found} where FakeTensorMode {expected}: {text or why}")


def examine(name: str, most: int) -> Verdict:
    """Check one operator of the database."""
    info = database()[name]
    verdict = Verdict(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = samples_of(info, dtype_for(info), most)
        compare(info, samples, verdict)
        compare_mixed(info, samples, verdict)
    return verdict
