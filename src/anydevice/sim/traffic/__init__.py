"""Traffic X-ray: what crosses between host and devices, by line of the program."""

from anydevice.sim.traffic.recorder import Recorder
from anydevice.sim.traffic.report import FORMATS, write
from anydevice.sim.traffic.summary import DEFAULT_BUS, Summary, summarise

__all__ = ["DEFAULT_BUS", "FORMATS", "Recorder", "Summary", "summarise", "write"]
