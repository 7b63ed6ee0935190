"""The machines that anydevice can simulate: one file each, found by walking this package."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from anydevice.worlds.world import World

__all__ = ["World", "all_worlds", "parse"]


@cache
def all_worlds() -> dict[str, World]:
    """Every known world by its name, in alphabetical order."""
    names = [module.name for module in pkgutil.iter_modules(__path__) if module.name not in ("world", "passing")]
    worlds = [importlib.import_module(f"{__name__}.{name}").WORLD for name in names]
    return {world.name: world for world in sorted(worlds, key=lambda world: world.name)}


def parse(text: str) -> World:
    """The world that `text` names: `cuda`, `cuda:2` (two devices), `none`, ...

    Raises:
        ValueError: no such world, or it cannot have that many devices; the message says which there are.
    """
    name, colon, count = text.strip().lower().partition(":")
    world = all_worlds().get("none" if name == "cpu" else name)
    if world is None:
        raise ValueError(f"no world is called '{text}'; there are {', '.join(all_worlds())}")
    if not colon:
        return world
    if not count.isdecimal() or not 1 <= int(count) <= world.limit:
        most = {0: "no devices", 1: "1 device"}.get(world.limit, f"1 to {world.limit} devices")
        raise ValueError(f"'{text}': the world '{world.name}' can have {most}, not '{count}'")
    return world.with_count(int(count))
