"""Operators of `torch.library`: the kernel for the device runs, and makes its tensors in the simulated world."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from anydevice.sim import simulate


@torch.library.custom_op("anydevice_test::everywhere", mutates_args=())
def everywhere(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones(x.shape, device=x.device)


@torch.library.custom_op("anydevice_test::on_cuda", mutates_args=(), device_types="cuda")
def on_cuda(x: torch.Tensor) -> torch.Tensor:
    assert x.is_cuda
    return x.new_zeros(x.shape)


@torch.library.custom_op("anydevice_test::on_cpu", mutates_args=(), device_types="cpu")
def on_cpu(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@torch.library.custom_op("anydevice_test::writes", mutates_args=("x",))
def writes(x: torch.Tensor) -> None:
    x.add_(1)


@pytest.fixture
def old_style() -> Iterator[str]:
    library = torch.library.Library("anydevice_old", "DEF")
    library.define("which(Tensor x) -> Tensor")
    library.impl("which", lambda x: x * 10, "CPU")
    library.impl("which", lambda x: x * 20, "CUDA")
    yield "anydevice_old"
    library._destroy()


def test_kernel_for_all_devices_runs_on_each() -> None:
    with simulate("cuda:2"):
        assert str(everywhere(torch.zeros(3, device="cuda:1")).device) == "cuda:1"
        assert str(everywhere(torch.zeros(3)).device) == "cpu"


def test_kernel_for_cuda_runs_on_cuda_alone() -> None:
    with simulate("cuda"):
        assert str(on_cuda(torch.ones(3, device="cuda")).device) == "cuda:0"
        with pytest.raises(
            NotImplementedError, match="'anydevice_test::on_cuda' with arguments from the 'CPU' backend"
        ):
            on_cuda(torch.ones(3))


def test_kernel_for_the_cpu_does_not_stand_for_one_for_cuda() -> None:
    with simulate("cuda"):
        assert str(on_cpu(torch.ones(3)).device) == "cpu"
        with pytest.raises(
            NotImplementedError, match="'anydevice_test::on_cpu' with arguments from the 'CUDA' backend"
        ):
            on_cpu(torch.ones(3, device="cuda"))


def test_kernel_that_writes_its_argument() -> None:
    with simulate("cuda"):
        x = torch.zeros(3, device="cuda")
        writes(x)
        assert x.tolist() == [1.0, 1.0, 1.0]
        assert x.is_cuda


def test_gradient_of_a_custom_operator_is_on_the_device() -> None:
    everywhere.register_autograd(lambda context, gradient: gradient * 3)
    with simulate("cuda"):
        x = torch.zeros(3, device="cuda", requires_grad=True)
        everywhere(x).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [3.0, 3.0, 3.0]
        assert x.grad.is_cuda


def test_kernel_of_a_library_is_chosen_by_the_simulated_device(old_style: str) -> None:
    which = getattr(torch.ops, old_style).which
    with simulate("cuda"):
        assert which(torch.ones(1)).item() == 10
        assert which(torch.ones(1, device="cuda")).item() == 20


def test_mixed_devices_inside_a_kernel_are_refused() -> None:
    @torch.library.custom_op("anydevice_test::careless", mutates_args=())
    def careless(x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(3)

    with simulate("cuda"):
        assert careless(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]
        with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cpu"):
            careless(torch.ones(3, device="cuda"))
