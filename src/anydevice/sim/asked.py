"""Who asks for a device: the user's program, or C++ code that means "where my argument is".

Below the simulation every tensor is on the CPU, so that C++ code which makes a tensor with the options of another asks
for `cpu`, whatever the logical device. What Python calls by name is marked here (see `tensor_api/asking.py`); a request
for the CPU without the mark comes from C++.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# What C++ code makes with nothing to say where: equal to the CPU, and another object, so that the fast path of the
# dispatcher sees that it is not settled. It goes where the first tensor that it meets is.
LOOSE = torch.device("cpu")


class _Asked(threading.local):
    python: bool = False


asked = _Asked()


@contextmanager
def asking() -> Iterator[None]:
    """Requests for a device within the block are those of the program."""
    outer = asked.python
    asked.python = True
    try:
        yield
    finally:
        asked.python = outer


def home_of_gradient() -> torch.device | None:
    """The device of the gradients that the running autograd node makes: that of a leaf below it; None where unknown."""
    node = torch._C._current_autograd_node()
    if node is None:
        return None
    from anydevice.sim.place import device_of

    waiting, seen = [node], set()
    scalar = None
    while waiting:
        below = waiting.pop()
        if below in seen:
            continue
        seen.add(below)
        leaf = getattr(below, "variable", None)
        if isinstance(leaf, torch.Tensor):
            device = device_of(leaf)
            if device.type != "cpu" or leaf.dim() > 0:
                return device
            scalar = device  # a CPU scalar may belong to an operator of an accelerator
            continue
        source = getattr(below, "source", None)
        if type(below).__name__ == "ToCopyBackward" and below is not node:
            target: torch.device | None = getattr(below, "target", source)
            return target
        waiting += [item for item, _ in below.next_functions if item is not None]
        if len(seen) > 200:
            break
    return scalar


__all__ = ["LOOSE", "asked", "asking", "home_of_gradient"]
