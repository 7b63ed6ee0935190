"""The optimizers of `optim_db`, each run in the simulated world `cuda` and on the CPU, and what is not the same."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.common_optimizers import (
    OptimizerInfo,
    OptimizerInput,
    _get_optim_inputs_including_global_cliquey_kwargs,
    optim_db,
)

from anydevice.sim import simulate
from databases.comparing import SEED, Verdict, answer, same, thinned

STEPS = 4
SHAPES = ((4, 3), (5, 4))  # of the parameters; Muon takes matrices only
# what is asked of an accelerator only; the results are those without
ACCELERATED = ("capturable", "fused", "foreach")
Move = Callable[[torch.Tensor], torch.Tensor]


@dataclass
class Training:
    """An optimizer and its parameters on one device."""

    parameters: list[torch.Tensor]
    optimizer: torch.optim.Optimizer
    info: OptimizerInfo

    def run(self, steps: int = STEPS) -> None:
        """So many steps towards the number of the step; the gradients are set, fake tensors of cuda have no autograd."""
        for number in range(steps):
            if self.info.step_requires_closure:
                self.optimizer.step(lambda number=number: self._closure(number))
            else:
                self._closure(number)
                self.optimizer.step()

    @torch.no_grad()
    def _closure(self, number: int) -> torch.Tensor:
        for parameter in self.parameters:
            gradient = 2 * (parameter - number)
            parameter.grad = gradient.to_sparse() if self.info.only_supports_sparse_grads else gradient
        return torch.stack([(parameter - number).square().sum() for parameter in self.parameters]).sum()

    def state(self) -> dict[tuple[int, str], torch.Tensor]:
        """The tensors that the optimizer keeps, by the number of the parameter and the name."""
        return {
            (number, name): value
            for number, parameter in enumerate(self.parameters)
            for name, value in self.optimizer.state[parameter].items()
            if isinstance(value, torch.Tensor)
        }


def database() -> dict[str, OptimizerInfo]:
    """The optimizers by name."""
    return {info.name: info for info in optim_db}


def samples_of(info: OptimizerInfo, most: int) -> list[OptimizerInput]:
    """At most `most` configurations (0: all), `foreach`, `fused`, `differentiable` and `capturable` among them."""
    found = _get_optim_inputs_including_global_cliquey_kwargs("cuda", torch.float32, info, skip=("differentiable",))
    return thinned(found, most)


def training(info: OptimizerInfo, options: dict[str, Any], move: Move) -> Training:
    """Parameters, moved, and their optimizer."""
    torch.manual_seed(SEED)
    parameters = [move(torch.randn(shape)).requires_grad_() for shape in SHAPES]
    return Training(parameters, info.optim_cls(parameters, **copy.deepcopy(options)), info)


def _to_cuda(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to("cuda:0")


def _faker(mode: FakeTensorMode) -> Move:
    def move(tensor: torch.Tensor) -> torch.Tensor:
        with mode:
            return torch.empty_like(tensor, device="cuda:0")

    return move


def compare_steps(info: OptimizerInfo, sample: OptimizerInput, verdict: Verdict) -> None:
    """Parameters and state after some steps, and after the state went through a checkpoint, against the CPU."""
    here = training(info, {k: v for k, v in sample.kwargs.items() if k not in ACCELERATED}, lambda tensor: tensor)
    here.run()
    here.run()
    verdict.compared["step"] += 1
    with simulate("cuda"):
        try:
            there = training(info, sample.kwargs, _to_cuda)
            there.run()
            there.optimizer.load_state_dict(copy.deepcopy(there.optimizer.state_dict()))
            there.run()
        except Exception as error:
            verdict.fail("step", f"{sample.desc}: {type(error).__name__}: {error}")
            return
        devices = {str(parameter.device) for parameter in there.parameters}
        state = [tensor.cpu() for tensor in there.state().values()]
    if devices != {"cuda:0"}:
        verdict.fail("step", f"{sample.desc}: parameters on {', '.join(sorted(devices))}")
    difference = same([p.detach() for p in there.parameters], [p.detach() for p in here.parameters])
    difference = difference or same(state, list(here.state().values()))
    if difference:
        verdict.fail("step", f"{sample.desc}: {difference}")


def compare_placement(info: OptimizerInfo, sample: OptimizerInput, verdict: Verdict) -> None:
    """Where the state is kept, and what a part of it on the CPU does, against FakeTensorMode."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    faked = None

    def fake_training() -> Training:
        made = training(info, sample.kwargs, _faker(mode))
        with mode:
            made.run(1)
        return made

    def begin() -> None:
        nonlocal faked
        faked = fake_training()

    if answer(begin).kind != "runs" or faked is None:
        return
    expected = {key: str(tensor.device) for key, tensor in faked.state().items()}
    strays = [key for key, tensor in faked.state().items() if tensor.dim() > 0]
    expected_answers = []
    for key in strays:
        other = fake_training()
        with mode:
            _leave(other, key)
            expected_answers.append(answer(lambda other=other: other.run(1)))
    with simulate("cuda"):
        there = training(info, sample.kwargs, _to_cuda)
        there.run(1)
        found = {key: str(tensor.device) for key, tensor in there.state().items()}
        answers = []
        for key in strays:
            other = training(info, sample.kwargs, _to_cuda)
            other.run(1)
            _leave(other, key)
            answers.append(answer(lambda other=other: other.run(1)))
    verdict.compared["placement"] += 1
    if found != expected:
        differing = [f"{key[1]} on {found.get(key)} where it is on {expected[key]}" for key in expected]
        verdict.fail("placement", f"{sample.desc}: {'; '.join(differing)}")
    for key, given, wanted in zip(strays, answers, expected_answers, strict=True):
        verdict.agree(f"{sample.desc}: {key[1]} on the CPU", given, wanted)


def _leave(made: Training, key: tuple[int, str]) -> None:
    """Put one tensor of the state on the CPU, as a checkpoint does that is loaded without moving it."""
    number, name = key
    state = made.optimizer.state[made.parameters[number]]
    state[name] = state[name].cpu()


def examine(name: str, most: int) -> Verdict:
    """Check one optimizer of the database."""
    info = database()[name]
    verdict = Verdict(name, ("step", "placement", "mixed"))
    for sample in samples_of(info, most):
        compare_steps(info, sample, verdict)
        compare_placement(info, sample, verdict)
    return verdict
