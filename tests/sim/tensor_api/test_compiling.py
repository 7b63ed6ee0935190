"""Compiled code runs eagerly in a simulation, with the same placements and errors."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from anydevice.sim import simulate

pytestmark = pytest.mark.filterwarnings("ignore:torch.compile compiles nothing")


def test_compiled_module_trains_on_the_device() -> None:
    with simulate("cuda:2"):
        model = torch.compile(torch.nn.Linear(4, 2).cuda(1))
        out = model(torch.ones(3, 4, device="cuda:1"))
        out.sum().backward()
        assert str(out.device) == "cuda:1"
        assert {str(parameter.grad.device) for parameter in model.parameters()} == {"cuda:1"}
        assert sorted(model.state_dict()) == ["_orig_mod.bias", "_orig_mod.weight"]


def test_compiled_function_meets_tensors_of_two_devices() -> None:
    with simulate("cuda:2"), pytest.raises(RuntimeError, match="at least two devices"):
        torch.compile(torch.add)(torch.ones(2, device="cuda"), torch.ones(2))


def test_decorator_with_options() -> None:
    with simulate("cuda"):

        @torch.compile(fullgraph=True, mode="reduce-overhead")
        def double(tensor: torch.Tensor) -> torch.Tensor:
            return tensor * 2

        assert double(torch.ones(2, device="cuda")).tolist() == [2, 2]


def test_module_compiled_in_place() -> None:
    with simulate("cuda"):
        model = torch.nn.Linear(4, 2).cuda()
        model.compile()
        assert model(torch.ones(1, 4, device="cuda")).is_cuda


def test_it_is_said() -> None:
    with simulate("cuda"), pytest.warns(UserWarning, match="runs eagerly"):
        torch.compile(torch.nn.Linear(4, 2))


def test_what_is_compiled_later_is_compiled() -> None:
    from torch._dynamo import eval_frame

    before, original = eval_frame._stance.stance, torch.compile
    with simulate("cuda"):
        torch.compile(torch.nn.Linear(4, 2))
        assert eval_frame._stance.stance == "force_eager"
    assert (eval_frame._stance.stance, torch.compile) == (before, original)
