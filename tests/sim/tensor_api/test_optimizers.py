"""Optimizers and clipping over tensors of several devices, in every form."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from anydevice.sim import simulate

FORMS: list[dict[str, Any]] = [{"foreach": True}, {"foreach": False}, {"fused": True}]


def trained(devices: tuple[str, str], kind: str, form: dict[str, Any]) -> list[torch.Tensor]:
    """Two layers on two devices, after some steps with gradients clipped."""
    torch.manual_seed(0)
    first, second = (torch.nn.Linear(3, 3).to(device) for device in devices)
    parameters = [*first.parameters(), *second.parameters()]
    optimizer = getattr(torch.optim, kind)(parameters, lr=0.1, **form)
    x = torch.linspace(-1, 1, 6).reshape(2, 3)
    for _ in range(3):
        optimizer.zero_grad()
        second(first(x.to(devices[0])).to(devices[1])).square().sum().backward()
        torch.nn.utils.clip_grad_norm_(parameters, 0.5, foreach=form.get("foreach"))
        optimizer.step()
    assert [str(p.device) for p in parameters] == [devices[0]] * 2 + [devices[1]] * 2
    return [p.detach().cpu() for p in parameters]


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("devices", [("cuda:0", "cuda:1"), ("cpu", "cuda:0")])
def test_model_on_two_devices_trains_as_on_the_cpu(kind: str, form: dict[str, Any], devices: tuple[str, str]) -> None:
    expected = trained(("cpu", "cpu"), kind, form)
    with simulate("cuda:2"):
        found = trained(devices, kind, form)
    torch.testing.assert_close(found, expected)


def test_state_left_on_another_device_is_refused() -> None:
    with simulate("cuda:2"):
        parameter = torch.nn.Parameter(torch.ones(3, device="cuda:0"))
        optimizer = torch.optim.Adam([parameter], foreach=True)
        parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        optimizer.state[parameter]["exp_avg"] = torch.zeros(3, device="cuda:1")
        with pytest.raises(RuntimeError, match="Tensors of the same index must be on the same device"):
            optimizer.step()


def test_lazy_module_moves_before_it_has_parameters() -> None:
    with simulate("cuda"):
        layer = torch.nn.LazyLinear(2).to("cuda")
        layer(torch.ones(1, 3, device="cuda"))
        assert {str(p.device) for p in layer.parameters()} == {"cuda:0"}
