"""Fake tensors of a simulated device: shapes and devices without data, gradients included."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from anydevice.sim import simulate

devices = pytest.mark.parametrize(("world", "device"), [("cuda:2", "cuda:1"), ("mps", "mps:0"), ("xpu", "xpu:0")])


@devices
def test_a_fake_leaf_has_gradients_on_its_device(world: str, device: str) -> None:
    with simulate(world), FakeTensorMode():
        leaf = torch.randn(3, 4, device=device, requires_grad=True)
        (leaf.sin() * torch.ones(4, device=device)).sum().backward()
        assert leaf.grad.device == torch.device(device)
        assert leaf.grad.shape == (3, 4)


def test_a_layer_and_its_optimizer_can_be_fake() -> None:
    with simulate("cuda:2"), FakeTensorMode():
        with torch.device("cuda"):
            layer = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
        optimizer = torch.optim.AdamW(layer.parameters())
        layer(torch.randn(2, 3, 8, 8, device="cuda")).mean().backward()
        optimizer.step()
        assert {state["exp_avg"].device.type for state in optimizer.state.values()} == {"cuda"}


def test_fake_tensors_of_two_devices_do_not_mix() -> None:
    with simulate("cuda:2"), FakeTensorMode(), pytest.raises(Exception, match="cuda:0.*cpu|cpu.*cuda:0"):
        torch.randn(3, device="cuda", requires_grad=True) + torch.randn(3)


def test_a_fake_copy_of_a_parameter_is_where_the_parameter_is() -> None:
    with simulate("cuda:2"):
        weight = torch.nn.Parameter(torch.randn(3, device="cuda:1"))
        fake = FakeTensorMode().from_tensor(weight)
        assert (fake.device, fake.requires_grad) == (torch.device("cuda:1"), True)
        assert (fake + 1).device == torch.device("cuda:1")


@devices
def test_an_exported_module_gives_what_the_module_gives(world: str, device: str) -> None:
    with simulate(world):
        module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).to(device)
        rows = torch.randn(3, 4, device=device)
        program = torch.export.export(module, (rows,))
        given = program.module()(rows)
        assert given.device == torch.device(device)
        torch.testing.assert_close(given, module(rows))


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_a_traced_function_gives_what_the_function_gives(mode: str) -> None:
    def step(weight: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad((rows @ weight + torch.ones(2, device="cuda")).sum(), weight)[0]

    with simulate("cuda:2"):
        weight, rows = torch.randn(4, 2, device="cuda", requires_grad=True), torch.randn(3, 4, device="cuda")
        traced = make_fx(step, tracing_mode=mode)(weight, rows)
        torch.testing.assert_close(traced(weight, rows), step(weight, rows))


def test_after_a_simulation_a_fake_tensor_says_to_cpp_what_it_said_before() -> None:
    with simulate("cuda:2"):
        pass
    with FakeTensorMode():
        fake = torch.empty(3, device="cuda")
    assert torch._C.TensorBase.device.__get__(fake).type == "cuda"
