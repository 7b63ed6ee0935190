"""`torch.cuda` and `torch.xpu`: which devices there are, what they are, and which is the current one."""

from __future__ import annotations

from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.errors import refusing
from anydevice.sim.simulation import Simulation, current

KINDS = ("cuda", "xpu")

# what only the hardware can tell, or what hands out handles of it
REFUSED = (
    "clock_rate",
    "cudart",
    "current_blas_handle",
    "current_solver_handle",
    "device_memory_used_nvml",
    "GreenContext",
    "list_gpu_processes",
    "memory_usage",
    "power_draw",
    "temperature",
    "utilization",
)


class DeviceProperties:
    """`torch.cuda.get_device_properties`: the fields that PyTorch shows (torch/csrc/cuda/Module.cpp)."""

    def __init__(self, simulation: Simulation, index: int) -> None:
        world = simulation.world
        self.name = world.device_name
        self.total_memory = world.memory
        self.multi_processor_count = world.multi_processor_count
        if world.capability is not None:
            self.major, self.minor = world.capability
            self.is_integrated = self.is_multi_gpu_board = 0
            self.warp_size = 64 if "hip" in world.versions else 32
            self.max_threads_per_multi_processor = 2048
            self.max_threads_per_block = 1024
            self.regs_per_multiprocessor = 65536
            self.shared_memory_per_block = 48 * 1024
            self.shared_memory_per_block_optin = 163 * 1024
            self.shared_memory_per_multiprocessor = 164 * 1024
            self.L2_cache_size = 40 * 2**20
            self.gcnArchName = world.device_name if "hip" not in world.versions else "gfx90a:sramecc+:xnack-"
            self.pci_bus_id, self.pci_device_id, self.pci_domain_id = index + 1, 0, 0
            self.uuid = f"00000000-0000-0000-0000-{index:012d}"
        else:
            self.platform_name = "Intel(R) oneAPI Unified Runtime over Level-Zero"
            self.type = "gpu"
            self.max_compute_units = self.gpu_eu_count = world.multi_processor_count
            self.gpu_subslice_count = world.multi_processor_count // 8
            self.max_work_group_size = 1024
            self.sub_group_sizes = [16, 32]
            self.has_fp16 = self.has_fp64 = self.has_atomic64 = True
            self.driver_version = "1.6.33578"

    def __repr__(self) -> str:
        fields = {"name": repr(self.name), **{k: v for k, v in vars(self).items() if k in ("major", "minor")}}
        fields["total_memory"] = f"{self.total_memory // 2**20}MB"
        fields["multi_processor_count"] = str(self.multi_processor_count)
        return f"_CudaDeviceProperties({', '.join(f'{key}={value}' for key, value in fields.items())})"


def index_of(device: Any, *, optional: bool = True) -> int:
    """The index that `device` means: a number, a name, a `torch.device`, or the current one for None."""
    simulation = current()
    if device is None:
        if not optional:
            raise ValueError("Expected a torch.device with a specified index or an integer, but got:None")
        return simulation.current_index
    if isinstance(device, (str, torch.device)) and torch.device(device).type != simulation.world.device_type:
        kind = simulation.world.device_type
        raise ValueError(f"Expected a {kind} device, but got: {torch.device(device).type}")
    if isinstance(device, int) and device < 0:
        return simulation.current_index
    return int(simulation.resolve(device).index)


def number_of(device: Any) -> int:
    """The index that `device` means, whether or not there is such a device; `_get_device_index` looks no further."""
    if isinstance(device, (str, torch.device)):
        named = torch.device(device)
        if named.type == current().world.device_type and named.index is not None:
            return named.index
    elif isinstance(device, int) and not isinstance(device, bool):
        return device
    return index_of(device)


def set_device(device: Any) -> None:
    """Make a device the current one; a negative number does nothing."""
    if isinstance(device, int) and device < 0:
        return
    current().current_index = index_of(device)


def exchange_device(index: int) -> int:
    """Make `index` the current device and give the one before; a negative number does nothing but for that."""
    simulation = current()
    before = simulation.current_index
    if index >= 0:
        simulation.current_index = int(simulation.resolve(index).index)
    return before


def synchronize(device: Any = None) -> None:
    """Wait for a device."""
    simulation = current()
    simulation.synchronised(simulation.devices[index_of(device)], "synchronize")


def capability(device: Any = None) -> Any:
    """(major, minor) on CUDA; on XPU what the device can do, by name."""
    index_of(device)
    world = current().world
    if world.capability is not None:
        return world.capability
    return {
        key: value for key, value in vars(DeviceProperties(current(), 0)).items() if key.startswith(("has_", "max_"))
    }


def properties(device: Any = None) -> DeviceProperties:
    """What there is to know of a device."""
    return DeviceProperties(current(), index_of(device))


def name(device: Any = None) -> str:
    """What a device calls itself."""
    index_of(device)
    return current().world.device_name


def peers(device: Any, peer_device: Any) -> bool:
    """Can one device read the memory of another?"""
    here, there = index_of(device, optional=False), index_of(peer_device, optional=False)
    return here != there


def architectures() -> list[str]:
    """What the simulated build of PyTorch has kernels for: just the devices of this world."""
    world = current().world
    if "hip" in world.versions:
        return ["gfx90a"]
    return ["pvc"] if world.capability is None else ["sm_{}{}".format(*world.capability)]


def install(patches: Patches, simulation: Simulation) -> None:
    """Let the module of each kind answer: for the devices of the world, or that PyTorch is not built for it."""
    for kind in KINDS:
        module = getattr(torch, kind)
        here = simulation.world.device_type == kind
        patches.known(module, _always(simulation, kind, here))
        if here:
            patches.known(module, _answers(simulation))
            patches.known(module, {name: refusing(f"torch.{kind}.{name}") for name in REFUSED})


def _always(simulation: Simulation, kind: str, here: bool) -> dict[str, Any]:
    def lazy_init() -> None:
        if not here:
            raise simulation.not_built(kind)
        if simulation.forked:
            raise simulation.bad_fork()
        simulation.initialised = True

    return {
        "_lazy_init": lazy_init,
        "init": lazy_init,
        "is_available": lambda: here,
        "device_count": lambda: len(simulation.devices) if here else 0,
        "is_initialized": lambda: here and simulation.initialised and not simulation.forked,
        "is_bf16_supported": lambda including_emulation=True: here,
        "is_tf32_supported": lambda: here,
    }


def _answers(simulation: Simulation) -> dict[str, Any]:
    return {
        "_lazy_call": lambda callback, **kwargs: callback(),
        "_get_device_index": lambda device=None, optional=False, allow_cpu=False: number_of(device),
        "_exchange_device": exchange_device,
        "_maybe_exchange_device": exchange_device,
        "current_device": lambda: simulation.current_index,
        "set_device": set_device,
        "synchronize": synchronize,
        "get_device_name": name,
        "get_device_capability": capability,
        "get_device_properties": properties,
        "can_device_access_peer": peers,
        "get_arch_list": architectures,
        "get_gencode_flags": lambda: " ".join(
            f"-gencode compute={arch.replace('sm_', 'compute_')},code={arch}" for arch in architectures()
        ),
        "ipc_collect": lambda: None,
        "get_sync_debug_mode": lambda: simulation.sync_debug_mode,
        "set_sync_debug_mode": simulation.set_sync_debug_mode,
        "has_half": True,
        "has_magma": "hip" not in simulation.world.versions,
        "check_error": lambda result: None,
    }
