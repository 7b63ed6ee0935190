"""Moving data: every case of the table in every world, and what must not happen on the way."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from anydevice import get_device, to_device
from anydevice.runtime.moving.copies import may_run_on

_PLACE = Path(__file__).parents[2] / "benchmarks" / "container_cases.py"
_spec = importlib.util.spec_from_file_location("container_cases", _PLACE)
cases = sys.modules["container_cases"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)


@pytest.mark.worlds("cuda:2", "mps", "xpu")
@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.name)
def test_containers_arrive_on_the_device(case):
    device = get_device()
    old = case.make()
    assert case.right(to_device(old, device), old, device)


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.name)
def test_containers_arrive_on_meta(case):
    old = case.make()
    assert case.right(to_device(old, "meta"), old, torch.device("meta"))


@pytest.mark.parametrize("case", [case for case in cases.CASES if ".to " not in case.name], ids=lambda case: case.name)
def test_what_is_there_is_returned_as_it_is(case):
    old = case.make()
    assert to_device(old, "cpu") is old
    assert to_device(old) is old


@pytest.mark.worlds("cuda:2", "mps", "xpu")
def test_values_come_back_as_they_were():
    base = torch.arange(12.0)
    old = [base, base[2:8].view(2, 3), base.view(torch.int32)[::2], torch.ones(1).expand(3)]
    there = to_device(old, get_device())
    back = to_device(there, "cpu")
    for new, was in zip(back, old, strict=True):
        assert torch.equal(new, was)
        assert new.stride() == was.stride()
    there[0][2] = 100
    assert there[1][0, 0].item() == 100


@pytest.mark.worlds("cuda:2", "mps", "xpu")
def test_gradients_come_back_to_the_source():
    weight = torch.ones(3, requires_grad=True)
    whole, part = to_device([weight, weight[:2]], get_device())
    (whole.sum() + part.sum()).backward()
    assert weight.grad.tolist() == [2.0, 2.0, 1.0]


@pytest.mark.worlds("mps")
def test_a_dtype_that_the_device_lacks_is_cast_with_a_warning():
    data = {"a": torch.ones(2, dtype=torch.float64), "b": torch.ones(2, dtype=torch.int64)}
    with pytest.warns(UserWarning, match=r"mps has no torch.float64: moved as torch.float32"):
        moved = to_device(data, "mps")
    assert moved["a"].dtype is torch.float32
    assert moved["b"].dtype is torch.int64


@pytest.mark.worlds("cuda:2", "xpu")
def test_a_dtype_that_the_device_has_stays():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert to_device(torch.ones(2, dtype=torch.float64), get_device()).dtype is torch.float64


@pytest.mark.parametrize(
    ("source", "target", "allowed"),
    [
        ("cpu", "cuda", True),
        ("cuda", "cuda", True),
        ("cpu", "xpu", True),
        ("cuda", "cpu", False),
        ("cpu", "mps", False),
        ("mps", "cpu", False),
        ("cpu", "meta", False),
    ],
)
def test_copies_run_in_the_background_only_where_readers_wait_for_them(source, target, allowed):
    assert may_run_on(torch.device(source), torch.device(target)) is allowed


@pytest.mark.worlds("cuda:2", "mps", "xpu")
def test_non_blocking_gives_the_same_values():
    data = {"a": torch.arange(3.0), "b": [torch.ones(2)]}
    moved = to_device(to_device(data, get_device(), non_blocking=True), "cpu", non_blocking=True)
    assert moved["a"].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.worlds("cuda:2", "mps", "xpu")
def test_a_module_is_moved_in_place_where_it_is_the_data():
    module = torch.nn.Linear(2, 2)
    assert to_device(module, get_device()) is module
    assert module.weight.device == get_device()


def test_shared_parameters_stay_shared_where_the_device_makes_new_ones():
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    module[1].weight = module[0].weight
    to_device(module, "meta")
    assert module[1].weight is module[0].weight
    assert module[0].weight.is_meta


def test_a_class_can_be_registered_with_its_own_way():
    class Sealed:
        def __init__(self, x):
            self.x = x

    @to_device.register(Sealed)
    def move(item, device):
        return Sealed(to_device(item.x, device))

    (moved,) = to_device([Sealed(torch.ones(1))], "meta")
    assert moved.x.is_meta
    from anydevice.runtime.moving.survey import registered

    del registered[Sealed]


@pytest.mark.worlds("cuda:2")
def test_the_current_device_is_meant_where_no_index_is_given():
    torch.cuda.set_device(1)
    assert to_device(torch.ones(1), "cuda").device == torch.device("cuda:1")
