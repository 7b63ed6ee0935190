"""What a CUDA device has and the CPU has not: half-precision transforms, fused attention, and what it lacks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from torch.nn.attention import SDPBackend, sdpa_kernel

from anydevice.sim import simulate

attend = torch.nn.functional.scaled_dot_product_attention


@pytest.mark.parametrize(
    ("transform", "dtype"),
    [
        (lambda x: torch.fft.fft(x), torch.complex32),
        (lambda x: torch.fft.rfft2(x), torch.complex32),
        (lambda x: torch.fft.ifftn(x), torch.complex32),
        (lambda x: torch.fft.irfft(x, 8), torch.float16),
        (lambda x: torch.fft.fft(x, n=2, dim=0), torch.complex32),
    ],
)
def test_half_precision_transform_of_powers_of_two(transform: Callable[..., torch.Tensor], dtype: torch.dtype) -> None:
    data = torch.arange(32.0).view(4, 8)
    exact = transform(data)
    with simulate("cuda"):
        found = transform(data.half().to("cuda"))
        assert found.dtype is dtype
        assert str(found.device) == "cuda:0"
        copied = found.to(exact.dtype).cpu()
    torch.testing.assert_close(copied, exact, rtol=1e-2, atol=1e-1)


@pytest.mark.parametrize(
    "transform",
    [lambda x: torch.fft.fft(x), lambda x: torch.fft.irfft(x[:, :2], dim=0), lambda x: torch.fft.fft(x[0], 5)],
)
def test_half_precision_transform_of_another_size_is_refused(transform: Callable[..., object]) -> None:
    with (
        simulate("cuda"),
        pytest.raises(RuntimeError, match="cuFFT only supports dimensions whose sizes are powers of two"),
    ):
        transform(torch.ones(4, 3, device="cuda").half())


@pytest.mark.parametrize(
    ("backend", "dtype", "runs"),
    [
        (SDPBackend.MATH, torch.float32, True),
        (SDPBackend.EFFICIENT_ATTENTION, torch.float32, True),
        (SDPBackend.EFFICIENT_ATTENTION, torch.float64, False),
        (SDPBackend.FLASH_ATTENTION, torch.float16, True),
        (SDPBackend.FLASH_ATTENTION, torch.bfloat16, True),
        (SDPBackend.FLASH_ATTENTION, torch.float32, False),
    ],
)
def test_attention_by_one_kernel(backend: SDPBackend, dtype: torch.dtype, runs: bool) -> None:
    with simulate("cuda"):
        data = torch.rand(1, 2, 4, 8).to("cuda", dtype)
        expected = attend(data.cpu().float(), data.cpu().float(), data.cpu().float())
        with sdpa_kernel(backend):
            if runs:
                found = torch.nn.functional.scaled_dot_product_attention(data, data, data)
                assert str(found.device) == "cuda:0"
                torch.testing.assert_close(found.float().cpu(), expected, rtol=2e-2, atol=2e-2)
            else:
                with pytest.raises(RuntimeError, match="No available kernel. Aborting execution."):
                    torch.nn.functional.scaled_dot_product_attention(data, data, data)
            assert torch.backends.cuda.math_sdp_enabled() is (backend is SDPBackend.MATH)


def test_mkldnn_takes_cpu_tensors_alone() -> None:
    with simulate("cuda"):
        assert torch.ones(3).to_mkldnn().is_mkldnn
        with pytest.raises(RuntimeError, match="dense_to_mkldnn expects CPU tensor input"):
            torch.ones(3, device="cuda").to_mkldnn()


@pytest.mark.parametrize("function", ["matrix_rank", "pinv"])
def test_tolerance_on_another_device_is_refused(function: str) -> None:
    with simulate("cuda"):
        with pytest.raises(RuntimeError, match=f"torch.linalg.{function}: Expected atol and input tensors"):
            getattr(torch.linalg, function)(torch.eye(3, device="cuda"), atol=torch.tensor(0.1))
        with pytest.raises(RuntimeError, match="got rtol on cuda:0 and input on cpu"):
            getattr(torch.linalg, function)(torch.eye(3), rtol=torch.tensor(0.1).to("cuda"))
