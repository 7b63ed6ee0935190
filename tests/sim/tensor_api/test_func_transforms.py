"""`torch.func`: its transforms see devices as the code outside them does, moves included."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from anydevice.sim import simulate

_WEIGHT = [1.0, 2.0, 3.0]
TRANSFORMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "grad": lambda w: torch.func.grad(lambda w: (w.cuda() * 2).sum())(w),
    "vjp": lambda w: torch.func.vjp(lambda w: w.cuda() * 2, w)[1](torch.ones(3, device="cuda"))[0],
    "jacrev": lambda w: torch.func.jacrev(lambda w: (w.cuda() * 2).sum())(w),
    "per sample": lambda w: torch.func.vmap(torch.func.grad(lambda w: w.cuda() * 2))(w),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_gradient_comes_back_through_a_move(transform: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with simulate("cuda:2"):
        gradient = transform(torch.tensor(_WEIGHT))
        assert gradient.device.type == "cpu"
        assert gradient.tolist() == [2, 2, 2]


def test_tangent_moves_with_its_tensor() -> None:
    with simulate("cuda:2"):
        weight = torch.tensor(_WEIGHT)
        out, tangent = torch.func.jvp(lambda w: w.cuda() * 2, (weight,), (weight,))
        assert out.device.type == tangent.device.type == "cuda"


def test_vmap_meets_tensors_of_two_devices() -> None:
    with simulate("cuda:2"), pytest.raises(RuntimeError, match="at least two devices"):
        torch.func.vmap(lambda row: torch.zeros(3) + row)(torch.ones(2, 3, device="cuda"))
