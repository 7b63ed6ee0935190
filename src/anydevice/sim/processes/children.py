"""Child processes inherit the world: through the environment, and a start-up folder on their path."""

from __future__ import annotations

import os
from pathlib import Path

from anydevice.sim.patches import Patches
from anydevice.sim.simulation import Simulation

VARIABLE = "ANYDEVICE_SIM"
STARTUP = Path(__file__).with_name("startup")


def install(patches: Patches, simulation: Simulation) -> None:
    """Say in the environment what is simulated, for Python processes that are started from now on."""
    patches.item(os.environ, VARIABLE, f"{simulation.world} {simulation.world.memory}")
    path = os.environ.get("PYTHONPATH")
    if str(STARTUP) not in (path or "").split(os.pathsep):
        patches.item(os.environ, "PYTHONPATH", os.pathsep.join(filter(None, (str(STARTUP), path))))


def start() -> None:
    """Enter the world that the environment names, for the rest of the process."""
    from anydevice.sim.simulation import enter
    from anydevice.worlds import parse

    name, memory = os.environ[VARIABLE].split()
    enter(parse(name).with_memory(int(memory)))
