"""The modules of `module_db`, each run in the simulated world `cuda` and on the CPU, and what is not the same."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.parameter import is_lazy
from torch.testing._internal.common_modules import ModuleInfo, ModuleInput, module_db

from anydevice.sim import simulate
from databases.comparing import (
    SEED,
    Answer,
    Verdict,
    answer,
    copied,
    copied_with_stray,
    fake,
    faked,
    tensors_in,
    thinned,
)
from databases.outcome import Outcome, agree


@dataclass(frozen=True)
class Sample:
    """A module, built on the CPU, and the arguments of a call."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def database() -> dict[str, ModuleInfo]:
    """The modules that have float32 samples, by name."""
    return {info.name: info for info in module_db if torch.float32 in info.supported_dtypes("cpu")}


def samples_of(info: ModuleInfo, most: int) -> list[Sample]:
    """At most `most` samples (0: all), in training and, where that differs, in evaluation."""
    found = []
    for training in (True, False) if info.train_and_eval_differ else (True,):
        torch.manual_seed(SEED)
        for given in info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
        ):
            if given.forward_input is not None:
                args, kwargs = tuple(given.forward_input.args), dict(given.forward_input.kwargs)
                found.append(Sample(_built(info, given, training, args, kwargs), args, kwargs))
    return thinned(found, most)


def _built(
    info: ModuleInfo, given: ModuleInput, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> nn.Module:
    """The module; a lazy one is called once, since each device would draw other parameters for it."""
    torch.manual_seed(SEED)
    module: nn.Module = info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs)
    module.train(training)
    if any(is_lazy(parameter) for parameter in module.parameters()):
        module(*args, **kwargs)
    return module


def outcome(sample: Sample, device: str) -> Outcome:
    """Move the module and its arguments to `device`, run forward and backward."""
    this = Outcome()
    try:
        module = copy.deepcopy(sample.module).to(device)
        args, kwargs = copied((sample.args, sample.kwargs), device)
        torch.manual_seed(SEED)
        out = module(*args, **kwargs)
        this.forward([*tensors_in(out), *module.buffers()])
        leaves = [leaf for leaf in [*tensors_in((args, kwargs)), *module.parameters()] if leaf.requires_grad]
        this.backward(out, leaves)
    except Exception as error:
        this.error = error
    return this


def compare(samples: list[Sample], verdict: Verdict) -> None:
    """Forward and backward against the CPU."""
    with simulate("cuda"):
        simulated = [outcome(sample, "cuda:0") for sample in samples]
    for sample, there in zip(samples, simulated, strict=True):
        agree(verdict, there, outcome(sample, "cpu"), device="cuda:0")


def _strays(sample: Sample) -> Iterator[int]:
    """The numbers of the arguments, then of the parameters, that are left on the CPU, where there is another tensor."""
    tensors = [*tensors_in((sample.args, sample.kwargs)), *sample.module.parameters()]
    if len(tensors) > 1:
        yield from (number for number, tensor in enumerate(tensors) if tensor.dim() > 0)


def _call(module: nn.Module, given: tuple[Any, Any]) -> Answer:
    with torch.no_grad():
        return answer(lambda: module(*given[0], **given[1]))


def _slots(module: nn.Module) -> Iterator[tuple[dict[str, Any], str]]:
    """Where the parameters are kept, in the order of `Module.parameters`, then the buffers."""
    seen: set[int] = set()
    for kind in ("_parameters", "_buffers"):
        for part in module.modules():
            held = getattr(part, kind)
            for name, tensor in held.items():
                if tensor is not None and id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield held, name


def fake_answer(sample: Sample, stray: int | None) -> Answer:
    """What FakeTensorMode says of a module of cuda with one tensor on the CPU."""
    mode = FakeTensorMode()
    given = faked((sample.args, sample.kwargs), mode, stray)
    module = copy.deepcopy(sample.module)
    for number, (held, name) in enumerate(list(_slots(module)), len(tensors_in(given))):
        made = fake(held[name].detach(), mode, "cpu" if number == stray else "cuda:0")
        held[name] = nn.Parameter(made, requires_grad=False) if isinstance(held[name], nn.Parameter) else made
    with mode:
        return _call(module, given)


def simulated_answer(sample: Sample, stray: int) -> Answer:
    """What the simulator says of the same."""
    module = copy.deepcopy(sample.module).to("cuda:0")
    arguments = (sample.args, sample.kwargs)
    count = len(tensors_in(arguments))
    if stray < count:
        return _call(module, copied_with_stray(arguments, "cuda:0", stray))
    parameter = list(module.parameters())[stray - count]
    parameter.data = parameter.data.cpu()
    return _call(module, copied(arguments, "cuda:0"))


def compare_mixed(samples: list[Sample], verdict: Verdict) -> None:
    """One argument or parameter on the CPU: does the simulator refuse it just where FakeTensorMode does?"""
    cases: list[tuple[Sample, int, Answer]] = []
    for sample in samples:
        if fake_answer(sample, None).kind == "runs":
            cases += [(sample, stray, fake_answer(sample, stray)) for stray in _strays(sample)]
    with simulate("cuda"):
        answers = [simulated_answer(sample, stray) for sample, stray, _ in cases]
    for (_, stray, expected), found in zip(cases, answers, strict=True):
        verdict.agree(f"tensor {stray}", found, expected)


def examine(name: str, most: int) -> Verdict:
    """Check one module of the database."""
    verdict = Verdict(name)
    samples = samples_of(database()[name], most)
    compare(samples, verdict)
    compare_mixed(samples, verdict)
    return verdict
