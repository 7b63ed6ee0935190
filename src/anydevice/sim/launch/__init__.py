"""Running a program in a simulated world: as `python` would, with its own output, traceback and exit status."""

from anydevice.launch.program import Program, find
from anydevice.sim.launch.running import run

__all__ = ["Program", "find", "run"]
