"""Where the CPU's kernels refuse or speak otherwise than the accelerator's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from anydevice.sim import simulate

F = torch.nn.functional
ACCELERATOR_ERROR = getattr(torch, "AcceleratorError", RuntimeError)

# x: a 4x4 tensor; far: an index that is out of its range
ASSERTS: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "index": lambda x, far: x[far],
    "index_put": lambda x, far: x.index_put_((far,), x[0].clone()),
    "index_select": lambda x, far: x.index_select(0, far),
    "gather": lambda x, far: x.gather(0, far[:, None]),
    "scatter": lambda x, far: x.scatter(0, far[:, None], x),
    "index_add": lambda x, far: x.index_add(0, far, x[:2]),
    "take": lambda x, far: x.take(far * 9),
    "embedding": lambda x, far: F.embedding(far, x),
    "embedding_bag": lambda x, far: F.embedding_bag(far[None], x),
    "cross_entropy": lambda x, far: F.cross_entropy(x[:2], far),
    "one_hot": lambda x, far: F.one_hot(far, 3),
    "binary_cross_entropy": lambda x, far: F.binary_cross_entropy(x + 7, x),
}


def _operands(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(4, 4).to(device), torch.tensor([1, 9]).to(device)


@pytest.mark.parametrize(("world", "names"), [("cuda", "CUDA"), ("rocm", "HIP")])
@pytest.mark.parametrize("name", ASSERTS)
def test_wrong_value_in_device_memory_is_a_device_side_assert(name: str, world: str, names: str) -> None:
    with simulate(world), pytest.raises(ACCELERATOR_ERROR) as failure:
        ASSERTS[name](*_operands("cuda"))
    assert str(failure.value).startswith(f"{names} error: device-side assert triggered\n")


@pytest.mark.parametrize("name", ASSERTS)
def test_cpu_says_it_in_its_own_words_in_a_world_with_cuda(name: str) -> None:
    with pytest.raises((RuntimeError, IndexError)) as plain:
        ASSERTS[name](*_operands("cpu"))
    with simulate("cuda"), pytest.raises((RuntimeError, IndexError)) as simulated:
        ASSERTS[name](*_operands("cpu"))
    assert type(simulated.value) is type(plain.value)
    assert "device-side" not in str(simulated.value)


@pytest.mark.parametrize(
    ("case", "kind", "text"),
    [
        (lambda x: x[9], IndexError, "index 9 is out of bounds for dimension 0 with size 4"),
        (lambda x: x.sum(7), IndexError, "Dimension out of range"),
        (lambda x: x.gather(7, x.long()), IndexError, "Dimension out of range"),
        (lambda x: x.index_select(0, x), IndexError, "Index is supposed to be a vector"),
        (lambda x: x.view(3), RuntimeError, "shape '\\[3\\]' is invalid"),
    ],
)
def test_what_the_host_checks_is_said_as_on_the_cpu(
    case: Callable[[torch.Tensor], object], kind: type[Exception], text: str
) -> None:
    with simulate("cuda"), pytest.raises(kind, match=text) as failure:
        case(torch.rand(4, 4, device="cuda"))
    assert "device-side" not in str(failure.value)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "operator",
    [
        lambda x: torch.polygamma(1, x),
        lambda x: torch.round(x, decimals=2),
        lambda x: x.polygamma_(1),
        lambda x: torch.nn.functional.avg_pool3d(x.reshape(1, 1, 2, 2, 4), 2),
    ],
)
def test_half_precision_that_the_cpu_lacks_is_computed_in_float32(
    operator: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype
) -> None:
    numbers = torch.arange(1.0, 17.0).view(4, 4).to(dtype)
    exact = operator(numbers.float())
    with simulate("cuda"):
        found = operator(numbers.to("cuda"))
        assert found.dtype is dtype
        assert str(found.device) == "cuda:0"
        copied = found.cpu()
    torch.testing.assert_close(copied, exact.to(dtype))


INTEGER_PRODUCTS = [
    (lambda m, v: m @ m, "addmm_cuda"),
    (lambda m, v: torch.addmm(m, m, m), "addmm_cuda"),
    (lambda m, v: torch.bmm(m[None], m[None]), "baddbmm_cuda"),
    (lambda m, v: torch.dot(v, v), "dot"),
]


@pytest.mark.parametrize(("case", "kernel"), INTEGER_PRODUCTS)
def test_cuda_has_no_product_of_integers(
    case: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], kernel: str
) -> None:
    matrix, vector = torch.ones(2, 2, dtype=torch.int64), torch.ones(2, dtype=torch.int64)
    with simulate("cuda"):
        with pytest.raises(NotImplementedError, match=f"\"{kernel}\" not implemented for 'Long'"):
            case(matrix.to("cuda"), vector.to("cuda"))
        assert case(matrix, vector).dtype is torch.int64
    with simulate("mps"):
        assert str(case(matrix.to("mps"), vector.to("mps")).device) == "mps:0"


def test_histogram_has_no_cuda_kernel() -> None:
    with simulate("cuda"):
        assert torch.histogram(torch.rand(8), 3).hist.sum() == 8
        with pytest.raises(
            NotImplementedError, match="Could not run 'aten::histogram.bin_ct' with arguments from the 'CUDA'"
        ):
            torch.histogram(torch.rand(8, device="cuda"), 3)


@pytest.mark.parametrize(
    "case",
    [
        lambda x: x.double(),
        lambda x: x.sum(dtype=torch.float64),
        lambda x: x.softmax(0, dtype=torch.float64),
        lambda x: torch.mul(x.int(), torch.tensor(2.0, dtype=torch.float64)),
        lambda x: torch.zeros_like(x, dtype=torch.float64),
        lambda x: x.new_zeros(2, dtype=torch.float64),
        lambda x: torch.arange(3, dtype=torch.float64, device=x.device),
    ],
)
def test_mps_holds_no_float64(case: Callable[[torch.Tensor], object]) -> None:
    with simulate("mps"), pytest.raises(TypeError, match="MPS framework doesn't support float64"):
        case(torch.ones(4, 4, device="mps"))


def test_failed_operator_leaves_the_simulation_working() -> None:
    with simulate("cuda") as simulation:
        x = torch.rand(4, 4, device="cuda")
        for _ in range(3):
            with pytest.raises(RuntimeError):
                x @ torch.rand(4, 4)
        assert str((x @ x).device) == "cuda:0"
        assert torch.utils._python_dispatch._get_current_dispatch_mode() is simulation.dispatcher
