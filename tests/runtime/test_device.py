"""Choosing a device: what is usable, who may override whom, and what is said of it."""

from __future__ import annotations

import logging

import pytest

torch = pytest.importorskip("torch")

import anydevice
from anydevice.runtime import device as chooser
from anydevice.runtime.backends import backend_of
from anydevice.runtime.backends.backend import Memory, trial
from anydevice.runtime.backends.cuda import Cuda, runs
from anydevice.runtime.choice import DeviceUnavailable
from anydevice.runtime.ranks import _LAUNCHERS

BEST = {"none": "cpu", "cuda:2": "cuda:0", "rocm": "cuda:0", "mps": "mps:0", "xpu": "xpu:0"}


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    for name in ("ANYDEVICE", *(name for pair in _LAUNCHERS for name in pair)):
        monkeypatch.delenv(name, raising=False)
    chooser._said.clear()


@pytest.mark.parametrize("world", BEST)
def test_the_best_usable_device_is_chosen(simulate, world):
    with simulate(world):
        device = anydevice.get_device()
        assert str(device) == BEST[world]
        assert torch.ones(1, device=device).device == device


@pytest.mark.worlds("none", "cuda:2", "mps", "xpu")
def test_choosing_starts_no_driver():
    anydevice.get_device()
    assert not torch.cuda.is_initialized()


@pytest.mark.worlds("cuda:2", "mps", "xpu")
def test_the_cpu_is_chosen_where_no_accelerator_is_wanted():
    choice = anydevice.get_device(prefer_gpu=False, explain=True)
    assert str(choice) == "using cpu: prefer_gpu is False"


@pytest.mark.worlds("none")
def test_a_request_that_cannot_be_met_is_an_error():
    with pytest.raises(DeviceUnavailable, match=r"get_device\('cuda'\) asks for cuda, .* not built for it"):
        anydevice.get_device("cuda")


@pytest.mark.worlds("cuda:2")
@pytest.mark.parametrize("name", ["cuda:2", "mps", "xpu:0"])
def test_a_request_for_a_device_that_is_not_there_is_an_error(name):
    with pytest.raises(DeviceUnavailable, match=name.split(":")[0]):
        anydevice.get_device(name)


@pytest.mark.worlds("cuda:2")
@pytest.mark.parametrize(
    ("prefer", "device"),
    [("cuda:1", "cuda:1"), (1, "cuda:1"), ("cpu", "cpu"), (("mps", "cuda", "cpu"), "cuda:0"), ("auto", "cuda:0")],
)
def test_a_request_is_met(prefer, device):
    assert str(anydevice.get_device(prefer)) == device


def test_several_kinds_fall_back_only_to_what_they_name():
    with pytest.raises(DeviceUnavailable, match="cuda or mps"):
        anydevice.get_device(("cuda", "mps"))
    choice = anydevice.get_device(("cuda", "cpu"), explain=True)
    assert choice.device == torch.device("cpu")
    assert "cuda passed over (this PyTorch is not built for it)" in choice.reason


@pytest.mark.parametrize("text", ["gpu", "cuda:x", "cuda:-1", "", "cuda 0"])
def test_what_names_no_device_is_an_error(text):
    with pytest.raises(ValueError, match=f"'{text}' names no device"):
        anydevice.get_device(text)


def test_a_device_of_a_package_that_is_not_imported_is_said_to_be_so():
    with pytest.raises(DeviceUnavailable, match="torch_npu"):
        anydevice.get_device("npu")


@pytest.mark.worlds("cuda:2")
def test_the_environment_stands_above_the_program(monkeypatch):
    monkeypatch.setenv("ANYDEVICE", "cpu")
    assert str(anydevice.get_device("cuda", explain=True)) == "using cpu: ANYDEVICE=cpu"
    monkeypatch.setenv("ANYDEVICE", "mps,cuda:1")
    assert anydevice.get_device() == torch.device("cuda:1")
    monkeypatch.setenv("ANYDEVICE", "auto")
    assert anydevice.get_device() == torch.device("cuda:0")
    monkeypatch.setenv("ANYDEVICE", "mps")
    with pytest.raises(DeviceUnavailable, match="ANYDEVICE=mps asks for mps"):
        anydevice.get_device()


@pytest.mark.worlds("cuda:2")
@pytest.mark.parametrize(("rank", "size"), _LAUNCHERS)
def test_the_local_rank_has_its_own_device(monkeypatch, rank, size):
    monkeypatch.setenv(rank, "1")
    monkeypatch.setenv(size, "2")
    choice = anydevice.get_device(explain=True)
    assert str(choice) == f"using cuda:1: {rank}=1 of 2 visible"


@pytest.mark.worlds("cuda:2")
def test_more_ranks_than_devices_are_an_error(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(DeviceUnavailable, match="LOCAL_RANK=2, and this process sees 2 cuda devices"):
        anydevice.get_device()


@pytest.mark.worlds("cuda")
def test_a_rank_that_sees_one_device_takes_it(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "3")  # srun --gpus-per-task=1
    assert anydevice.get_device() == torch.device("cuda:0")


@pytest.mark.worlds("cuda:2", "mps", "xpu")
def test_free_memory_is_asked_of_the_driver():
    assert anydevice.get_device(min_free_memory=10**9).type != "cpu"
    assert anydevice.get_device(min_free_memory=10**12).type == "cpu"
    with pytest.raises(DeviceUnavailable, match=r"bytes are free, and 1,000,000,000,000 are asked for"):
        anydevice.get_device(anydevice.get_device(), min_free_memory=10**12)


@pytest.mark.worlds("cuda:2")
def test_of_several_devices_with_enough_memory_the_emptiest_is_taken():
    held = torch.ones(1000, device="cuda:0")
    assert anydevice.get_device(min_free_memory=10**6) == torch.device("cuda:1")
    assert held.is_cuda


@pytest.mark.worlds("cuda:2")
def test_a_device_that_cannot_run_what_was_compiled_is_passed_over_with_a_warning(monkeypatch, caplog):
    monkeypatch.setattr(Cuda, "_capability", lambda self, index: (6, 1))
    monkeypatch.setattr(Cuda, "_compiled", lambda self: ["sm_75", "sm_80", "compute_80"])
    with caplog.at_level(logging.INFO, "anydevice"):
        assert anydevice.get_device() == anydevice.get_device() == torch.device("cpu")
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert (
        "capability 6.1 is none of those that this PyTorch was compiled for (sm_75 sm_80 compute_80)" in record.message
    )


@pytest.mark.worlds("cuda:2")
def test_a_kernel_is_run_where_asked_for(monkeypatch):
    def failing(device):
        return "a kernel fails on it" if device.index == 0 else trial(device)

    monkeypatch.setattr(chooser, "trial", failing)
    assert anydevice.get_device(run_kernel=True) == torch.device("cuda:1")
    assert anydevice.get_device(run_kernel=False) == torch.device("cuda:0")


@pytest.mark.worlds("none", "cuda", "mps", "xpu")
def test_a_kernel_runs_on_what_is_there_and_not_elsewhere():
    assert trial(anydevice.get_device()) is None
    assert "a kernel fails on it" in str(trial(torch.device("vulkan")))


@pytest.mark.parametrize(
    ("capability", "compiled", "fits"),
    [
        ((8, 0), "sm_75 sm_80", True),
        ((8, 6), "sm_75 sm_80", True),
        ((8, 0), "sm_75 sm_86", False),
        ((7, 0), "sm_75 sm_80 compute_80", False),
        ((12, 0), "sm_80 sm_90", False),
        ((12, 0), "sm_80 compute_90", True),
        ((9, 0), "sm_90a", True),
        ((12, 0), "sm_90a", False),
        ((10, 3), "sm_100f", True),
        ((10, 0), "sm_100", True),
    ],
)
def test_which_gpus_run_which_code(capability, compiled, fits):
    assert runs(capability, compiled.split()) is fits


@pytest.mark.worlds("none", "cuda:2", "mps", "xpu")
def test_a_device_is_normalised_as_its_tensors_report_it():
    kind = anydevice.get_device().type
    for device in (kind, torch.device(kind), "cpu", "cpu:0", "meta"):
        assert chooser.normalised(device) == torch.empty(1, device=torch.device(device)).device or device == "cpu:0"
    assert chooser.normalised("cpu:0") == torch.device("cpu")


@pytest.mark.worlds("none", "cuda:2", "mps", "xpu")
def test_memory_is_told_by_every_kind():
    backend = backend_of(anydevice.get_device().type)
    memory = backend.memory(0)
    assert isinstance(memory, Memory)
    assert 0 < memory.free <= memory.total
