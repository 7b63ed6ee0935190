"""Operators that take Python functions: they run without a compiler, and mixed devices within are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

torch = pytest.importorskip("torch")

from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from anydevice.sim import NotSimulated, simulate


@pytest.fixture(autouse=True)
def cuda() -> Iterator[None]:
    with simulate("cuda:2"):
        yield


CASES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "cond": lambda x: torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,)),
    "cond, as an operator": lambda x: cond_op(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,)),
    "while_loop": lambda x: while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (torch.tensor(0, device=x.device), x)
    )[1],
    "scan": lambda x: scan(lambda carry, row: (carry + row, carry * row), x[0], x)[1],
    "associative_scan": lambda x: associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic"),
}


@pytest.mark.parametrize("name", CASES)
def test_control_flow_gives_what_it_gives_on_the_cpu(name: str) -> None:
    there, here = CASES[name](torch.ones(3, 4, device="cuda:1")), CASES[name](torch.ones(3, 4))
    assert (there.device, here.device) == (torch.device("cuda:1"), torch.device("cpu"))
    torch.testing.assert_close(there.cpu(), here)


def test_a_branch_that_mixes_devices_is_refused() -> None:
    x = torch.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cpu"):
        torch.cond(x.sum() > 0, lambda a: a + torch.ones(3), lambda a: a - torch.ones(3), (x,))


def test_flex_attention_has_its_result_and_gradients_on_the_device() -> None:
    query = torch.randn(1, 2, 128, 16, device="cuda:1", requires_grad=True)
    bias = torch.randn(128, device="cuda:1")
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device="cuda:1")
    out = flex_attention(query, query, query, score_mod=lambda score, b, h, i, j: score + bias[i], block_mask=mask)
    out.sum().backward()
    assert out.device == query.grad.device == torch.device("cuda:1")


def test_flex_attention_with_a_bias_on_the_cpu_is_refused() -> None:
    query, bias = torch.randn(1, 2, 128, 16, device="cuda"), torch.randn(128)
    with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same device"):
        flex_attention(query, query, query, score_mod=lambda score, b, h, i, j: score + bias[i])


def test_what_only_a_compiler_runs_is_not_simulated() -> None:
    from torch._prims.rng_prims import graphsafe_run_with_rng_state

    x = torch.ones(3, device="cuda")
    with pytest.raises(NotSimulated, match="higher-order operator graphsafe_run_with_rng_state"):
        graphsafe_run_with_rng_state(torch.ops.aten.rand_like.default, x, rng_state=torch.Generator("cuda"))
