"""Process groups of the accelerator's own library (NCCL, XCCL): Gloo does the work, under their name.

What they refuse and what Gloo lacks is in `operators/collectives.py`, through which every collective passes.
"""

from __future__ import annotations

import datetime
import functools
from typing import Any

import torch
import torch.distributed
from torch.utils._python_dispatch import _disable_current_modes

from anydevice.patching.patches import Patches
from anydevice.sim.parallel.admission import LIBRARIES, admit, library_of
from anydevice.sim.simulation import Simulation, current


def install(patches: Patches, simulation: Simulation) -> None:
    """Say which libraries the build brings, and let a group of theirs be made."""
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d as c10d

    for library in LIBRARIES:
        available = library in simulation.world.collectives
        if not hasattr(c10d, f"_{library.upper()}_AVAILABLE"):
            continue
        patches.set(c10d, f"_{library.upper()}_AVAILABLE", available)
        if available:
            stand_in = _stand_in(library)
            patches.set(c10d, stand_in.__name__, stand_in)
            patches.set(torch.distributed, stand_in.__name__, stand_in)
    patches.set(c10d, "default_pg_nccl_timeout", datetime.timedelta(minutes=10))  # kProcessGroupNCCLDefaultTimeout
    if set(LIBRARIES) & set(simulation.world.collectives):
        patches.set(c10d, "_new_process_group_helper", _also_for_the_host(c10d._new_process_group_helper))
        if hasattr(torch.distributed, "_verify_params_across_processes"):
            verify = _for_parameters(torch.distributed._verify_params_across_processes)
            patches.everywhere(torch.distributed, "_verify_params_across_processes", verify)
        replacements = {
            "_start_coalescing": _start,
            "_end_coalescing": _end,
            "_device_types": _without_the_host(getattr(c10d.ProcessGroup, "_device_types", None)),
        }
        for name, replacement in replacements.items():
            if hasattr(c10d.ProcessGroup, name):
                patches.set(c10d.ProcessGroup, name, replacement)


@functools.cache
def _stand_in(library: str) -> Any:
    """The class `ProcessGroupNCCL`, made when it is first needed: a build without Gloo has nothing to make it of."""
    from torch.distributed import ProcessGroupGloo  # type: ignore[attr-defined]

    class Group(ProcessGroupGloo):  # type: ignore[misc]
        Options = _Options  # type: ignore[assignment]
        NCCLConfig = _Config

        def __init__(self, store: Any, rank: int, size: int, options: Any = None) -> None:
            given = options or _Options()
            super().__init__(store, rank, size, timeout=given._timeout)
            self.given = given

        @property
        def uid(self) -> int:
            return id(self)

        def name(self) -> str:
            return library

        def comm_split_count(self) -> int:
            return 0

        def perform_nocolor_split(self, device: torch.device) -> None:
            return None

        def eager_connect_single_device(self, device: torch.device) -> None:
            return None

        def abort(self) -> None:
            return None

        def _is_initialized(self) -> bool:
            return True

        def _group_start(self) -> None:
            return None

        def _group_end(self) -> None:
            return None

        def _add_ephemeral_timeout(self, timeout: datetime.timedelta) -> None:
            return None

    Group.__name__ = Group.__qualname__ = f"ProcessGroup{library.upper()}"
    Group.__module__ = "torch.distributed.distributed_c10d"
    return Group


class _Config:
    """`ProcessGroupNCCL.NCCLConfig`: takes any setting, and has no use for it."""

    blocking = cga_cluster_size = min_ctas = max_ctas = -(2**31)  # NCCL_CONFIG_UNDEF_INT
    net_name = ""


class _Options:
    """`ProcessGroupNCCL.Options`."""

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        self.is_high_priority_stream = is_high_priority_stream
        self._timeout = datetime.timedelta(minutes=10)
        self.config = _Config()
        self.split_from: Any = None
        self.split_color = -(2**31)
        self.global_ranks_in_group: list[int] = []
        self.group_name = ""


def _also_for_the_host(make: Any) -> Any:
    """C++ sees CPU tensors only, and must find a library for them in each group; `library_of` knows what is served."""

    @functools.wraps(make)
    def helper(*args: Any, **kwargs: Any) -> Any:
        from torch.distributed import distributed_c10d as c10d

        made = make(*args, **kwargs)
        group = made[0]
        if isinstance(group, c10d.ProcessGroup) and library_of(group, "cpu") is None:
            for library, kind in LIBRARIES.items():
                if library_of(group, kind) == library:
                    backend = group._get_backend(torch.device(kind))
                    group._register_backend(torch.device("cpu"), c10d.ProcessGroup.BackendType.GLOO, backend)
        return made

    return helper


def _without_the_host(served: Any) -> property:
    """`ProcessGroup._device_types`, less the CPU where the program has asked for no library for it."""

    def device_types(group: Any) -> list[torch.device]:
        known: list[torch.device] = served.__get__(group)
        return [device for device in known if library_of(group, device.type) is not None]

    return property(device_types)


def _for_parameters(verify: Any) -> Any:
    """C++ compares the shapes of parameters by tensors of its own, which are on the CPU for Gloo and for us."""

    @functools.wraps(verify)
    def wrapper(group: Any, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        admit(current(), group, list(tensors))
        with _disable_current_modes():
            return verify(group, tensors, *args, **kwargs)

    return wrapper


def _start(group: Any, device: torch.device) -> None:
    """Collectives in a block that gathers them run one by one, as they come."""


def _end(group: Any, device: torch.device) -> Any:
    """The work of such a block, which is done."""
    done: Any = torch.futures.Future()
    done.set_result(None)
    return torch._C._distributed_c10d._create_work_from_future(done)
