"""The CPU. Its memory is that of the machine, or less where a control group says so."""

from __future__ import annotations

import os
from pathlib import Path

from anydevice.runtime.backends.backend import Backend, Memory

_MEMINFO = Path("/proc/meminfo")
# (limit, use) of the control group that this process is in, as containers show it: version 2, then version 1
_GROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)


class Cpu(Backend):
    """The CPU."""

    kind = "cpu"
    indexed = False

    def built(self) -> bool:
        """Always."""
        return True

    def count(self) -> int:
        """One."""
        return 1

    def memory(self, index: int) -> Memory | None:
        """What the system calls available, within the limit of the control group."""
        machine = _machine()
        for limit, used in _GROUPS:
            most, now = _number(limit), _number(used)
            if machine is not None and most is not None and now is not None and most < machine.total:
                return Memory(min(machine.free, max(0, most - now)), most)
        return machine


def _machine() -> Memory | None:
    try:
        lines = dict(line.split(":", 1) for line in _MEMINFO.read_text(encoding="ascii").splitlines() if ":" in line)
        return Memory(int(lines["MemAvailable"].split()[0]) * 1024, int(lines["MemTotal"].split()[0]) * 1024)
    except (OSError, KeyError, ValueError):
        pass
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        total = os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return None
    try:
        free = os.sysconf("SC_AVPHYS_PAGES")
    except (OSError, ValueError):  # macOS tells how much there is, and not how much is free
        return None
    return Memory(free * page, total * page)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such control group, or its limit is "max"
        return None
