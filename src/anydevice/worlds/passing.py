"""A world as one line of text, by which a process tells its children where they are."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

from anydevice.worlds.world import World


def write(world: World) -> str:
    """The world, whether it is one of those known by name or not."""
    return json.dumps(asdict(world), default=sorted, separators=(",", ":"))


def read(text: str) -> World:
    """The world that `write` has written."""
    values: dict[str, Any] = json.loads(text)
    for field in fields(World):
        value = values[field.name]
        if isinstance(value, list):  # all that JSON knows of sequences and sets
            values[field.name] = frozenset(value) if str(field.type).startswith("frozenset") else tuple(value)
    return World(**values)
