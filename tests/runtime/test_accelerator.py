"""The counterparts of torch.accelerator: they answer in every world, and on the CPU."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import anydevice
from anydevice import get_device
from anydevice.runtime.amp import low_precision

everywhere = pytest.mark.worlds("none", "cuda:2", "rocm", "mps", "xpu")
COUNTS = {"none": 0, "cuda:2": 2, "rocm": 1, "mps": 1, "xpu": 1}


@everywhere
def test_every_function_can_be_called():
    anydevice.synchronize()
    anydevice.empty_cache()
    anydevice.reset_peak_memory_stats()
    anydevice.set_device(anydevice.current_device())
    assert anydevice.memory_allocated() >= 0
    assert anydevice.max_memory_allocated() >= 0
    for device in ("cpu", get_device()):
        anydevice.synchronize(device)
        anydevice.reset_peak_memory_stats(device)
        anydevice.set_device(device)
        assert 0 < anydevice.free_memory(device) <= anydevice.memory_info(device).total
    assert anydevice.memory_allocated("cpu") == 0


@pytest.mark.parametrize("world", COUNTS)
def test_devices_are_counted(simulate, world):
    with simulate(world):
        assert anydevice.device_count() == COUNTS[world]
        assert anydevice.device_count("cpu") == 1
        assert anydevice.device_count("cuda") == (COUNTS[world] if world in ("cuda:2", "rocm") else 0)


@pytest.mark.worlds("cuda:2", "mps", "xpu")
def test_memory_is_that_of_the_device():
    free, before = anydevice.free_memory(), anydevice.memory_allocated()
    held = torch.ones(1_000_000, device=get_device())
    assert anydevice.memory_allocated() - before >= 4_000_000
    assert anydevice.max_memory_allocated() >= 4_000_000
    assert free - anydevice.free_memory() >= 4_000_000
    assert held.sum().item() == 1_000_000


@pytest.mark.worlds("cuda:2")
def test_the_current_device_can_be_set():
    anydevice.set_device("cuda:1")
    assert anydevice.current_device() == torch.device("cuda:1")


@everywhere
def test_the_same_seed_gives_the_same_numbers():
    anydevice.manual_seed(3)
    first = torch.rand(4, device=get_device()).tolist()
    anydevice.manual_seed(3)
    assert torch.rand(4, device=get_device()).tolist() == first


@everywhere
def test_streams_and_events_are_there_and_measure():
    made = anydevice.stream()
    assert (made is None) == (get_device().type in ("cpu", "mps"))
    begin, end = anydevice.event(), anydevice.event()
    with anydevice.use_stream(made):
        begin.record()
        torch.ones(64, 64, device=get_device()) @ torch.ones(64, 64, device=get_device())
        end.record()
    anydevice.synchronize()
    end.synchronize()
    assert begin.elapsed_time(end) >= 0


def test_an_event_that_was_not_recorded_is_an_error():
    with pytest.raises(RuntimeError, match="call record"):
        anydevice.event("cpu").elapsed_time(anydevice.event("cpu"))


@pytest.mark.parametrize(
    ("world", "dtype"),
    [("none", torch.bfloat16), ("cuda:2", torch.bfloat16), ("mps", torch.float16), ("xpu", torch.bfloat16)],
)
def test_training_in_mixed_precision_works_everywhere(simulate, world, dtype):
    with simulate(world):
        device = get_device()
        model = torch.nn.Linear(4, 4).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = anydevice.grad_scaler(init_scale=8.0)  # the default overflows float16 at first, and skips the step
        before = model.weight.detach().clone()
        with anydevice.autocast():
            out = model(torch.ones(2, 4, device=device))
        assert out.dtype is dtype is low_precision(device)
        scaler.scale(out.float().sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert not torch.equal(model.weight, before)
        assert scaler.is_enabled() == (dtype is torch.float16)


@everywhere
def test_mixed_precision_can_be_switched_off():
    with anydevice.autocast(enabled=False):
        out = torch.ones(2, 2, device=get_device()) @ torch.ones(2, 2, device=get_device())
    assert out.dtype is torch.float32
