"""What came of running an entry forward and backward on one device, and whether two devices agree."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from databases.comparing import Verdict, same, tensors_in


@dataclass
class Outcome:
    """A run: its result and gradients, where they were, or what it raised."""

    result: list[torch.Tensor] = field(default_factory=list)
    grads: list[torch.Tensor | None] = field(default_factory=list)
    devices: set[str] = field(default_factory=set)
    grad_devices: set[str] = field(default_factory=set)
    error: Exception | None = None
    grad_error: Exception | None = None

    def forward(self, result: list[torch.Tensor]) -> None:
        """Note a result."""
        self.result = result
        self.devices = {str(tensor.device) for tensor in result}

    def backward(self, out: Any, leaves: list[torch.Tensor]) -> None:
        """Take the gradients of a weighted sum of all results, where there are any."""
        outs = [tensor for tensor in tensors_in(out) if tensor.requires_grad]
        if outs and leaves:
            weights = [torch.ones_like(tensor.detach()) * 0.5 for tensor in outs]
            self.grads = list(torch.autograd.grad(outs, leaves, weights, allow_unused=True))
            self.grad_devices = {str(grad.device) for grad in self.grads if grad is not None}


def agree(verdict: Verdict, there: Outcome, here: Outcome, *, device: str, values: bool = True) -> None:
    """Compare a simulated run, whose results belong on `device`, with that on the CPU."""
    if here.error is not None:
        return  # the database's own trouble on this machine
    verdict.compared["forward"] += 1
    if there.error is not None:
        verdict.fail("forward", f"{type(there.error).__name__}: {there.error}")
        return
    _same(verdict, "forward", "results", there.devices - {device}, same(there.result, here.result, values=values))
    if here.grad_error is not None or not here.grads:
        return
    verdict.compared["backward"] += 1
    if there.grad_error is not None:
        verdict.fail("backward", f"{type(there.grad_error).__name__}: {there.grad_error}")
        return
    wrong = there.grad_devices - {"cuda:0"}
    _same(verdict, "backward", "gradients", wrong, same(there.grads, here.grads, values=values))


def _same(verdict: Verdict, check: str, what: str, elsewhere: set[str], difference: str | None) -> None:
    if elsewhere:
        verdict.fail(check, f"{what} on {', '.join(sorted(elsewhere))}")
    if difference:
        verdict.fail(check, difference)
