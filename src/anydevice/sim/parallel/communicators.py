"""NCCL and its like set up a communicator when a group first uses a device: each process must bring a device of its own."""

from __future__ import annotations

import atexit
import contextlib
import socket
import time
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed

from anydevice.sim.parallel.nccl import VERSION

if TYPE_CHECKING:
    from anydevice.sim.simulation import Simulation

# Gloo's threads let go of a collective's tensors a little after it has ended, and need Python for it: where that is gone
# meanwhile, the process aborts.
_SETTLING = 0.1

_last = [-_SETTLING]  # when a collective was last begun

# group -> the devices that it has a communicator for
_made: WeakKeyDictionary[Any, list[torch.device]] = WeakKeyDictionary()


def check(sim: Simulation, group: Any, library: str, device: torch.device) -> None:
    """Set up the communicator of the group on `device`, once, together with the other processes.

    Raises:
        torch.distributed.DistBackendError: another process of this machine brings the same device, which is what comes
            of a forgotten `set_device` (`initTransportsRank` in init.cc of NCCL).
    """
    known = _made.setdefault(group, [])
    if device in known:
        return
    number = len(known)
    known.append(device)
    if library != "nccl" or group.size() == 1:
        return
    store = torch.distributed.distributed_c10d._world.pg_map[group][1]
    key = f"anydevice/{number}"
    mine = f"{socket.gethostname()} {device.index}"
    store.set(f"{key}/{group.rank()}", mine)
    brought = [store.get(f"{key}/{rank}").decode() for rank in range(group.size())]
    store.set(f"{key}/{group.rank()} has read", "")
    twin = next((rank for rank, theirs in enumerate(brought) if theirs == mine and rank != group.rank()), None)
    if twin is None:
        return
    # the process that raises first may be the one that keeps the store, and end before the others have read
    with contextlib.suppress(torch.distributed.DistError):
        store.wait([f"{key}/{rank} has read" for rank in range(group.size())])
    version = ".".join(map(str, VERSION))
    raise torch.distributed.DistBackendError(
        "NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.cpp:77, invalid usage (run with "
        f"NCCL_DEBUG=WARN for details), NCCL version {version}\n"
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n"
        f"Last error:\nDuplicate GPU detected : rank {group.rank()} and rank {twin} both on CUDA device "
        f"{(device.index + 1) << 12:x}"  # the bus of the device, as `get_device_properties` says it
    )


def begun() -> None:
    """A collective begins."""
    _last[0] = time.monotonic()


@atexit.register
def _settle() -> None:
    remaining = _last[0] + _SETTLING - time.monotonic()
    if remaining > 0:
        time.sleep(remaining)


def last_device(group: Any) -> torch.device | None:
    """The device that the group has used last; None where it has used none."""
    known = _made.get(group)
    return known[-1] if known else None
