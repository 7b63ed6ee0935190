"""Runs what is not Python itself (torchrun, bash), as if it had been called directly."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping

from anydevice.launch.program import Program


def status_of_command(program: Program, environment: Mapping[str, str]) -> int:
    """Run the command to its end, with the signals that this process gets; its status, negative for a signal."""
    with subprocess.Popen([program.name, *program.arguments], env=environment) as child:
        for passed_on in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"):
            if hasattr(signal, passed_on):
                signal.signal(getattr(signal, passed_on), lambda number, frame: child.send_signal(number))
        while True:
            try:
                return child.wait()
            except KeyboardInterrupt:  # the child has it too, and decides
                continue
