"""Worlds are data: what they say of themselves, and how users name them."""

from __future__ import annotations

import pytest

from anydevice.worlds import all_worlds, parse


def test_every_world_is_found():
    assert list(all_worlds()) == ["cuda", "mps", "none", "rocm", "xpu"]


@pytest.mark.parametrize("world", all_worlds().values(), ids=str)
def test_a_world_with_devices_says_what_they_are(world):
    assert bool(world.device_type) == bool(world.count) == bool(world.memory) == bool(world.device_name)
    assert world.count <= world.limit


@pytest.mark.parametrize(
    ("text", "name", "count"),
    [("cuda", "cuda", 1), ("cuda:2", "cuda", 2), (" CUDA:8 ", "cuda", 8), ("none", "none", 0), ("cpu", "none", 0)],
)
def test_names_are_read(text, name, count):
    world = parse(text)
    assert (world.name, world.count) == (name, count)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tpu", "there are cuda, mps, none, rocm, xpu"),
        ("", "no world is called ''"),
        ("cuda:0", "1 to 64 devices, not '0'"),
        ("cuda:-1", "not '-1'"),
        ("cuda:two", "not 'two'"),
        ("cuda:", "not ''"),
        ("mps:2", "1 device, not '2'"),
        ("none:1", "no devices, not '1'"),
        ("cuda:²", "not '²'"),
    ],
)
def test_other_names_are_refused(text, says):
    with pytest.raises(ValueError, match="world") as refusal:
        parse(text)
    assert says in str(refusal.value)
