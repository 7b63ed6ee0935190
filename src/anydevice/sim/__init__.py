"""Simulated accelerators: CUDA, ROCm, MPS and XPU code run for real, with real numbers, on a machine that has none.

with anydevice.sim.simulate("cuda:2"):
    model.to("cuda:1")
"""

import torch  # noqa: F401  # first: a child begins its simulation at the end of this import, and needs our modules whole

from anydevice.sim.errors import NotSimulated
from anydevice.sim.simulation import Simulation, current, simulate

__all__ = ["NotSimulated", "Simulation", "current", "simulate"]
