"""Subclasses of Tensor see the same calls in `__torch_function__` as on a real device."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from anydevice.sim import simulate


class Recorded(torch.Tensor):
    """Notes what is called on it."""

    calls: list[str] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append(getattr(func, "__name__", repr(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


class Unwrapped(torch.Tensor):
    """Becomes an ordinary tensor, but for calls in a table; as tensors of torchvision do."""

    kept = {torch.Tensor.to, torch.Tensor.cuda}  # of a time before any simulation

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            out = func(*args, **(kwargs or {}))
        return out.as_subclass(cls) if func in cls.kept else out


def recorded(device: str) -> list[str]:
    x = torch.ones(3).to(device).as_subclass(Recorded)
    Recorded.calls.clear()
    y = x + 1
    y.to("cpu").clone().numpy()
    assert y.cpu().tolist() == [2, 2, 2]
    return list(Recorded.calls)


def test_same_calls_as_on_the_cpu() -> None:
    expected = recorded("cpu")
    with simulate("cuda"):
        assert recorded("cuda") == expected


def test_attribute_is_a_call_too() -> None:
    with simulate("cuda"):
        x = torch.ones(3, device="cuda").as_subclass(Recorded)
        Recorded.calls.clear()
        assert str(x.device) == "cuda:0"
        assert x.is_cuda
        assert len(Recorded.calls) == 2


def test_table_made_before_the_simulation_has_the_methods_in_it() -> None:
    with simulate("cuda"):
        moved = torch.ones(3).as_subclass(Unwrapped).to("cuda")
        assert type(moved) is Unwrapped
        assert str(moved.device) == "cuda:0"
        assert type(moved.cpu()) is torch.Tensor


def test_table_made_in_the_simulation_has_the_methods_in_it() -> None:
    with simulate("cuda"):
        table = {torch.Tensor.to: 1}
        assert table[torch.Tensor.to] == 1
        assert torch.Tensor.cpu not in table


def test_function_modes_see_replaced_methods() -> None:
    class Seen(torch.overrides.TorchFunctionMode):
        names: list[str] = []

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with simulate("cuda"):
        x = torch.ones(3)
        with Seen() as seen:
            x.to("cuda")
        assert seen.names[0] == "to"


def test_methods_are_as_before_afterwards() -> None:
    before = torch.Tensor.to
    with simulate("cuda"):
        assert torch.Tensor.to is not before
    assert torch.Tensor.to is before
