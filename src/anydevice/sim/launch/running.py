"""Runs the program to its end in a simulated world, in this process where it is Python, and ends as it does."""

from __future__ import annotations

import os
from typing import NoReturn

from anydevice.launch import tracebacks
from anydevice.launch.commands import status_of_command
from anydevice.launch.executing import FAILED, end, status_of
from anydevice.launch.program import Program
from anydevice.sim.launch import ending
from anydevice.worlds import World


def run(program: Program, world: World, wishes: ending.Wishes) -> NoReturn:
    """Run the program to its end, and end with its status.

    Args:
        program: what to run.
        world: the machine to simulate.
        wishes: what the user wants to be told at the end.
    """
    if program.kind == "command":
        end(_run_command(program, world, wishes))
    from anydevice.sim import simulation

    watch = ending.begin(simulation.enter(world), wishes)
    tracebacks.hide_ours()
    status = status_of(program)
    unexpected = watch.tell()
    end(FAILED if unexpected and status in (0, None) else status)


def _run_command(program: Program, world: World, wishes: ending.Wishes) -> int:
    """Run what is not Python itself: the Python programs that it starts are in the world."""
    from anydevice.sim.processes.children import inherited

    environment = {**os.environ, **inherited(world, os.environ)}
    with ending.gathering(wishes) as (variables, watch):
        status = status_of_command(program, {**environment, **variables})
        return FAILED if watch.tell() and status == 0 else status
