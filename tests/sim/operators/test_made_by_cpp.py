"""Tensors that C++ code makes on its own, in autograd's formulas and in composite functions, are where its arguments are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from anydevice.sim import simulate

# the gradients of these begin with zeros that are made with the options of another tensor
GRADIENTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "prod with a zero": lambda x: (x * torch.tensor([0.0, 1, 1, 1]).to(x.device)).prod(),
    "trace": torch.trace,
    "cumprod": lambda x: x.cumprod(0).sum(),
    "cummax": lambda x: x.cummax(0).values.sum(),
    "index_select": lambda x: x.index_select(0, torch.tensor([0, 1]).to(x.device)).sum(),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 2)).sum(),
    "select": lambda x: x[0].sum(),
    "repeat": lambda x: x.repeat(2, 2).sum(),
    "repeat nothing": lambda x: x.repeat(0, 1).sum(),
    "half": lambda x: x.half().sum().float(),
    "double": lambda x: x.double().sum(),
    "softmax in double": lambda x: x.softmax(0, dtype=torch.float64).sum(),
    "mvlgamma": lambda x: (x + 5).mvlgamma(2).sum(),
    "stft": lambda x: torch.stft(x.reshape(-1), 4, return_complex=True, window=torch.ones_like(x[0])).abs().sum(),
    "norm": lambda x: x.norm(),
    "max": lambda x: x.max(),
    "sort": lambda x: x.sort(0).values[0].sum(),
    "triu": lambda x: x.triu().sum(),
    "circular padding": lambda x: torch.nn.functional.pad(x[None], (1, 1), mode="circular").sum(),
}


def _square(name: str) -> torch.Tensor:
    shape = (4,) if name == "prod with a zero" else (4, 4)
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient_is_on_the_device_and_as_on_the_cpu(name: str) -> None:
    here = _square(name).requires_grad_()
    GRADIENTS[name](here).backward()
    with simulate("cuda:2"):
        there = _square(name).to("cuda:1").requires_grad_()
        GRADIENTS[name](there).backward()
        assert there.grad is not None
        assert str(there.grad.device) == "cuda:1"
        copied = there.grad.cpu()
    torch.testing.assert_close(copied, here.grad)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient_of_a_cpu_tensor_stays_on_the_cpu(name: str) -> None:
    with simulate("cuda"):
        leaf = _square(name).requires_grad_()
        GRADIENTS[name](leaf).backward()
        assert leaf.grad is not None
        assert leaf.grad.device.type == "cpu"


FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "quantile": lambda x: x.quantile(0.5),
    "nanquantile": lambda x: x.nanquantile(0.5, dim=0),
    "matrix_rank": torch.linalg.matrix_rank,
    "matrix_rank of nothing": lambda x: torch.linalg.matrix_rank(x[:0], hermitian=False),
    "one_hot": lambda x: torch.nn.functional.one_hot(x.long()),
    "combinations": lambda x: torch.combinations(x[0]),
    "istft": lambda x: torch.istft(torch.stft(x.reshape(-1), 4, return_complex=True), 4),
    "vander": lambda x: torch.linalg.vander(x[0]),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
    "cov": torch.cov,
    "bincount": lambda x: torch.bincount(x.reshape(-1).long()),
    "cdist": lambda x: torch.cdist(x, x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_result_of_a_composite_function_is_with_its_argument(name: str) -> None:
    with simulate("cuda:2"):
        assert str(FUNCTIONS[name](_square(name).to("cuda:1")).device) == "cuda:1"
        assert str(FUNCTIONS[name](_square(name)).device) == "cpu"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_composite_function_in_inference_mode(name: str) -> None:
    with simulate("cuda"), torch.inference_mode():
        assert str(FUNCTIONS[name](_square(name).to("cuda")).device) == "cuda:0"


def test_factory_that_the_program_calls_is_on_the_cpu_within_a_custom_backward() -> None:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            return x * 2

        @staticmethod
        def backward(ctx, gradient):  # type: ignore[no-untyped-def]
            return gradient * torch.full((4, 4), 2.0)

    with simulate("cuda"):
        leaf = torch.ones(4, 4, device="cuda", requires_grad=True)
        with pytest.raises(RuntimeError, match="same device"):
            Scaled.apply(leaf).sum().backward()


@pytest.mark.parametrize("make", ["zeros", "ones", "rand", "randn", "empty"])
def test_factory_without_device_meets_a_device_tensor_and_is_refused(make: str) -> None:
    with simulate("cuda"):
        made = getattr(torch, make)(4, 4)
        with pytest.raises(RuntimeError, match="same device"):
            made + torch.ones(4, 4, device="cuda")


def test_double_backward_is_on_the_device() -> None:
    with simulate("cuda"):
        leaf = torch.tensor([1.0, 2.0, 3.0]).to("cuda").requires_grad_()
        (first,) = torch.autograd.grad((leaf**3).prod(), leaf, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), leaf)
        assert str(second.device) == "cuda:0"
