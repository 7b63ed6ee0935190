"""What the checks of all databases share: copies of arguments on a device, comparisons, answers and verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

Sample = TypeVar("Sample")
SEED = 20_26
MISMATCH = (
    "on the same device",
    "same device",
    "Device Propagation",
    "should be the same",
    "should be either on",
    "CPU scalars",
)


class Answer(NamedTuple):
    """What a call answers: it `runs`, `refuses` the devices, or `fails` otherwise, and with what error."""

    kind: str
    error: str


@dataclass
class Verdict:
    """What was found of one entry: counts of what was compared, and a line for each failure, by kind of check."""

    name: str
    checks: tuple[str, ...] = ("forward", "backward", "mixed")
    compared: dict[str, int] = field(init=False)
    failures: dict[str, list[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.compared = dict.fromkeys(self.checks, 0)
        self.failures = {check: [] for check in self.checks}

    def fail(self, check: str, why: str) -> None:
        """Note a failure, each once."""
        why = " ".join(why.split())[:400]
        if why not in self.failures[check]:
            self.failures[check].append(why)

    def agree(self, which: str, found: Answer, expected: Answer) -> None:
        """Compare what the simulator answers to mixed devices with what FakeTensorMode does, where it has an answer."""
        if expected.kind == "fails":
            return
        self.compared["mixed"] += 1
        if expected.kind != found.kind:
            self.fail(
                "mixed", f"{which}: {found.kind} where FakeTensorMode {expected.kind}: {found.error or expected.error}"
            )


def thinned(found: list[Sample], most: int) -> list[Sample]:
    """At most `most` of the samples (0: all), from the whole of the list."""
    return found[:: max(1, -(-len(found) // most)) if most else 1]


def answer(call: Callable[[], Any]) -> Answer:
    """Call it, and say how it went."""
    try:
        call()
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        return Answer("refuses" if any(part in text for part in MISMATCH) else "fails", text)
    return Answer("runs", "")


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in nested containers."""
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def _is_cpu(item: Any) -> bool:
    return isinstance(item, torch.device) or (isinstance(item, str) and item in ("cpu", "cpu:0"))


def copied(value: Any, device: str) -> Any:
    """A copy of arguments on `device`, every tensor a leaf; a device that they name is that device too."""

    def one(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            return item.detach().clone().to(device).requires_grad_(item.requires_grad)
        return torch.device(device) if _is_cpu(item) else item

    return tree_map(one, value)


def copied_with_stray(value: Any, device: str, stray: int) -> Any:
    """The same, but for the tensor number `stray`, which is on the CPU."""
    leaves, spec = tree_flatten(copied(value, device))
    positions = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    leaves[positions[stray]] = leaves[positions[stray]].detach().cpu()
    return tree_unflatten(leaves, spec)


def fake(tensor: torch.Tensor, mode: FakeTensorMode, device: str) -> torch.Tensor:
    """A fake tensor like `tensor` that claims to be on `device`."""
    with mode:
        made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    return made.requires_grad_(tensor.requires_grad)


def faked(value: Any, mode: FakeTensorMode, stray: int | None) -> Any:
    """Arguments as fake tensors of cuda, but for the tensor number `stray`."""
    count = -1

    def one(item: Any) -> Any:
        nonlocal count
        if isinstance(item, torch.Tensor):
            count += 1
            return fake(item, mode, "cpu" if count == stray else "cuda:0")
        return torch.device("cuda:0") if _is_cpu(item) else item

    return tree_map(one, value)


def same(left: list[Any], right: list[Any], *, values: bool = True) -> str | None:
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
