"""TorchScript compiles functions that a simulation has replaced, and forgets them with it."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from anydevice.sim import simulate


def made_and_scaled(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x) + torch.exp(x) * torch.ones(3)


def test_script_with_replaced_functions_compiles_and_runs() -> None:
    expected = made_and_scaled(torch.ones(3))
    with simulate("cuda"):
        scripted = torch.jit.script(made_and_scaled)
        torch.testing.assert_close(scripted(torch.ones(3)), expected)


def test_forward_mode_derivative_is_on_the_device() -> None:
    with simulate("cuda"):
        x = torch.ones(3, device="cuda")
        _, slope = torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))
        assert str(slope.device) == "cuda:0"


def test_table_of_functions_is_as_before() -> None:
    table = torch.jit._builtins._get_builtin_table()
    before = dict(table)
    with simulate("cuda"):
        assert len(table) > len(before)
    assert table == before
