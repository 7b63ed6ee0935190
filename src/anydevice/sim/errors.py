"""What the simulator itself refuses, and the types of what the simulated machine raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# PyTorch before 2.8 raises a RuntimeError for what an accelerator reports
AcceleratorError: type[RuntimeError] = getattr(torch, "AcceleratorError", RuntimeError)


class NotSimulated(NotImplementedError):
    """The program asks for something that needs the real hardware, so that any answer would be made up.

    Args:
        what: the name asked for, as the program spells it (`torch.cuda.cudart`).
        instead: what the user can do about it.
    """

    def __init__(self, what: str, instead: str = "run this part on the real device, or leave it out of the simulation"):
        super().__init__(f"anydevice does not simulate {what}; {instead}")


def refusing(what: str) -> Callable[..., Any]:
    """A stand-in for the function `what`, which raises `NotSimulated` when it is called."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotSimulated(what)

    return refuse
