"""Random numbers of simulated devices: the same seed gives the same stream, every time and in every world."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from anydevice.sim import simulate

WORLDS = {"cuda:2": "cuda:1", "rocm": "cuda:0", "mps": "mps", "xpu": "xpu:0"}


@pytest.mark.parametrize(("world", "device"), WORLDS.items())
@pytest.mark.parametrize("whose", ["torch", "module"])
def test_a_seed_begins_the_same_stream_again(world: str, device: str, whose: str) -> None:
    with simulate(world):
        here = torch.device(device)
        if here.index:
            torch.cuda.set_device(here)
        module = torch if whose == "torch" else torch.get_device_module(here)
        streams = []
        for _ in range(2):
            module.manual_seed(3)
            streams.append([torch.rand(3, device=here).tolist() for _ in range(2)])
        assert streams[0] == streams[1]
        assert streams[0][0] != streams[0][1]


@pytest.mark.parametrize(("world", "device"), WORLDS.items())
def test_two_simulations_give_one_stream(world: str, device: str) -> None:
    numbers = []
    for _ in range(2):
        with simulate(world):
            torch.manual_seed(7)
            numbers.append((torch.randn(4, device=device).tolist(), torch.randperm(5, device=device).tolist()))
    assert numbers[0] == numbers[1]
