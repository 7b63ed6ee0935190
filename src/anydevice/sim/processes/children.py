"""Child processes inherit the world: through the environment, and a start-up folder on their path."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from anydevice.launch import children
from anydevice.launch.children import STARTUP
from anydevice.patching.patches import Patches
from anydevice.sim.simulation import Simulation
from anydevice.worlds import World
from anydevice.worlds.passing import read, write

VARIABLE = "ANYDEVICE_SIM"


def install(patches: Patches, simulation: Simulation) -> None:
    """Say in the environment what is simulated, for Python processes that are started from now on."""
    for name, value in inherited(simulation.world, os.environ).items():
        patches.item(os.environ, name, value)
    patches.set(subprocess.Popen, "__init__", _inheriting(subprocess.Popen.__init__))
    _stop_fork_server()
    patches.afterwards(_stop_fork_server)


def inherited(world: World, environment: Mapping[str, str]) -> dict[str, str]:
    """What a child must find in its environment to be in this world."""
    return children.inherited(VARIABLE, write(world), environment)


def start() -> None:
    """Enter the world that the environment names, for the rest of the process."""
    from anydevice.launch import tracebacks
    from anydevice.sim.launch import ending
    from anydevice.sim.simulation import enter

    simulation = enter(read(os.environ[VARIABLE]))
    tracebacks.hide_ours()
    ending.begin_in_child(simulation)


def _inheriting(initialise: Callable[..., None]) -> Callable[..., None]:
    """A child with an environment of its own making, or another PYTHONPATH, is in the world all the same."""

    @functools.wraps(initialise)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        from anydevice.sim.simulation import active

        simulation = active()
        environment = kwargs.get("env")
        if simulation is not None and _lacks(os.environ if environment is None else environment):
            own = dict(os.environ if environment is None else environment)
            ours = {name: value for name, value in os.environ.items() if name.startswith(VARIABLE)}
            kwargs["env"] = own | ours | inherited(simulation.world, own)
        initialise(self, *args, **kwargs)

    return init


def _lacks(environment: Any) -> bool:
    """Would a child not find its way? What is no environment, `subprocess` itself will say."""
    with contextlib.suppress(TypeError, AttributeError):
        path = environment.get("PYTHONPATH") or ""
        return VARIABLE not in environment or STARTUP not in path.split(os.pathsep)
    return False


def _stop_fork_server() -> None:
    """A server that has been started in one world would go on to make children of that world."""
    module = sys.modules.get("multiprocessing.forkserver")
    server = getattr(module, "_forkserver", None)
    if getattr(server, "_forkserver_pid", None) is not None:
        with contextlib.suppress(OSError):
            server._stop()  # type: ignore[union-attr]
