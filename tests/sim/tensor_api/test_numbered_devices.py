"""A device given as a number is one of the simulated ones, wherever PyTorch takes a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from anydevice.sim import simulate

MAKE: dict[str, Callable[[], Any]] = {
    "factory": lambda: torch.ones(2, device=1),
    "like": lambda: torch.zeros_like(torch.ones(2), device=1),
    "window": lambda: torch.hann_window(4, device=1),
    "tensor": lambda: torch.tensor([1.0], device=1),
    "as_tensor": lambda: torch.as_tensor([1.0], device=1),
    "new": lambda: torch.ones(2).new_zeros(2, device=1),
    "new_tensor": lambda: torch.ones(2).new_tensor([1.0], device=1),
    "to": lambda: torch.ones(2).to(1),
    "to keyword": lambda: torch.ones(2).to(device=1),
    "cuda": lambda: torch.ones(2).cuda(1),
    "module": lambda: torch.nn.Linear(2, 2).to(1).weight,
    "module keyword": lambda: torch.nn.Linear(2, 2).to(device=1).weight,
    "module made there": lambda: torch.nn.Linear(2, 2, device=1).weight,
    "module filled": lambda: torch.nn.Linear(2, 2, device="meta").to_empty(device=1).weight,
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device=1),
    "device": lambda: torch.ones(2, device=torch.device(1)),
}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_number_is_a_device(make: Callable[[], Any]) -> None:
    with simulate("cuda:2"):
        assert str(make().device) == "cuda:1"


def test_number_of_no_device_is_refused() -> None:
    with simulate("cuda:2"), pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(2, device=2)


def test_default_device_by_number() -> None:
    with simulate("cuda:2"):
        torch.set_default_device(1)
        try:
            assert str(torch.ones(2).device) == "cuda:1"
        finally:
            torch.set_default_device(None)
