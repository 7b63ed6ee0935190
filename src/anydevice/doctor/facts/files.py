"""The data files as they lie in the package."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any, Literal

Name = Literal["torch", "cuda", "architectures", "signatures"]
NAMES: tuple[Name, ...] = ("torch", "cuda", "architectures", "signatures")


@cache
def read(name: Name) -> Any:
    """The contents of one data file. They are shared: do not change them."""
    path = resources.files(__package__).joinpath("data", f"{name}.json")
    return json.loads(path.read_text(encoding="utf-8"))
