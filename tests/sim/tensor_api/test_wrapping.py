"""Tensors made of other tensors: nested ones of both layouts, and a user's own subclass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils._pytree import tree_map_only

from anydevice.sim import simulate

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


class Wrapper(torch.Tensor):
    """What a tutorial on `__torch_dispatch__` shows: it holds a tensor and runs every operator on that."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapper:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map_only(Wrapper, lambda wrapper: wrapper.inner, (args, kwargs or {}))
        return tree_map_only(torch.Tensor, Wrapper, func(*args, **kwargs))


def parts() -> list[torch.Tensor]:
    return [torch.ones(2, 4), torch.ones(3, 4)]


def on(device: str) -> list[torch.Tensor]:
    return [part.to(device) for part in parts()]


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
@pytest.mark.parametrize(
    "make",
    [
        lambda layout: torch.nested.nested_tensor(on("cuda:1"), layout=layout),
        lambda layout: torch.nested.nested_tensor(parts(), layout=layout, device="cuda:1"),
        lambda layout: torch.nested.nested_tensor(parts(), layout=layout, device=1),
        lambda layout: torch.nested.as_nested_tensor(on("cuda:1"), layout=layout),
        lambda layout: torch.nested.as_nested_tensor(parts(), layout=layout, device="cuda:1"),
        lambda layout: torch.nested.nested_tensor(parts(), layout=layout).to("cuda:1"),
        lambda layout: torch.nested.nested_tensor(parts(), layout=layout).cuda(1),
    ],
)
def test_nested_tensor_is_where_it_is_asked_for(make: Callable[[Any], torch.Tensor], layout: Any) -> None:
    with simulate("cuda:2"):
        nested = make(layout)
        assert str(nested.device) == "cuda:1"
        assert {str(part.device) for part in nested.unbind()} == {"cuda:1"}
        assert torch.equal(nested.cpu().unbind()[1], torch.ones(3, 4))


def test_nested_tensor_of_python_numbers_is_on_the_device() -> None:
    with simulate("cuda:2"):
        assert torch.nested.nested_tensor([[1.0, 2.0], [3.0]], device="cuda").device.type == "cuda"


def test_parts_on_two_devices_make_no_nested_tensor() -> None:
    with simulate("cuda:2"), pytest.raises(RuntimeError, match="at least two devices"):
        torch.nested.as_nested_tensor([torch.ones(2, device="cuda"), torch.ones(2)])


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_layer_runs_on_a_nested_tensor_and_refuses_one_elsewhere(layout: Any) -> None:
    with simulate("cuda:2"):
        layer = torch.nn.Linear(4, 3).cuda()
        out = layer(torch.nested.nested_tensor(on("cuda"), layout=layout))
        assert out.device.type == "cuda"
        sum(part.sum() for part in out.unbind()).backward()
        assert layer.weight.grad.device.type == "cuda"
        with pytest.raises(RuntimeError, match="same device"):
            layer(torch.nested.nested_tensor(parts(), layout=layout))


def test_gradient_of_a_part_comes_back_to_the_part() -> None:
    with simulate("cuda:2"):
        leaf = torch.ones(2, 4, requires_grad=True)
        nested = torch.nested.as_nested_tensor([leaf], device="cuda:1")
        torch.nested.to_padded_tensor(nested, 0.0).sum().backward()
        assert leaf.grad.device.type == "cpu"


def test_wrapper_says_where_its_tensor_is() -> None:
    with simulate("cuda:2"):
        wrapper = Wrapper(torch.ones(3, device="cuda:1"))
        assert (str(wrapper.device), wrapper.is_cuda, wrapper.get_device()) == ("cuda:1", True, 1)


def test_device_of_a_wrapper_may_be_given_by_position() -> None:
    with simulate("cuda:2"):
        made = torch.Tensor._make_wrapper_subclass(
            Wrapper, (2,), (1,), 0, None, torch.float32, torch.strided, torch.device("cuda:1")
        )
        assert str(made.device) == "cuda:1"


def test_wrapper_trains_on_the_device() -> None:
    with simulate("cuda:2"):
        layer = torch.nn.Linear(4, 3).cuda()
        wrapper = Wrapper(torch.ones(3, 4, device="cuda")).requires_grad_()
        layer(wrapper).sum().backward()
        assert wrapper.grad.device.type == layer.weight.grad.device.type == "cuda"


def test_wrapper_moves_with_what_it_holds() -> None:
    with simulate("cuda:2"):
        moved = Wrapper(torch.ones(3)).to("cuda:1")
        assert type(moved) is Wrapper
        assert str(moved.device) == str(moved.inner.device) == "cuda:1"


def test_wrapper_meets_a_tensor_of_another_device() -> None:
    with simulate("cuda:2"), pytest.raises(RuntimeError, match="at least two devices"):
        Wrapper(torch.ones(3, device="cuda")) + torch.ones(3)


def test_wrapper_is_as_it_was_after_the_simulation() -> None:
    original = torch.Tensor._make_wrapper_subclass
    with simulate("cuda:2"):
        pass
    assert torch.Tensor._make_wrapper_subclass is original
    assert Wrapper(torch.ones(2)).device.type == "cpu"
