"""How child processes are told: by a variable in their environment, and a start-up folder on their path."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

STARTUP = str(Path(__file__).with_name("startup"))


def inherited(variable: str, value: str, environment: Mapping[str, str]) -> dict[str, str]:
    """What a child must find in its environment beside what is there already."""
    path = environment.get("PYTHONPATH") or ""
    if STARTUP not in path.split(os.pathsep):
        path = os.pathsep.join(filter(None, (STARTUP, path)))
    return {variable: value, "PYTHONPATH": path}
