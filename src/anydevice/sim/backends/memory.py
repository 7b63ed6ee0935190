"""Memory of the devices, as `torch.cuda.memory`, `torch.xpu.memory` and `torch.accelerator.memory` tell it."""

from __future__ import annotations

from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.errors import refusing
from anydevice.sim.memory import Ledger
from anydevice.sim.simulation import Simulation, current


def ledger(device: Any = None) -> Ledger:
    """The ledger of a device, the current one where none is given."""
    simulation = current()
    return simulation.ledgers[simulation.resolve(simulation.world.device_type or "cuda" if device is None else device)]


def nested_stats(device: Any = None) -> dict[str, Any]:
    """What `memory_stats_as_nested_dict` gives; the split into small and large pools is that of the total."""
    book = ledger(device)

    def pools(current: int, peak: int, allocated: int, freed: int) -> dict[str, dict[str, int]]:
        stat = {"current": current, "peak": peak, "allocated": allocated, "freed": freed}
        return {"all": stat, "small_pool": dict.fromkeys(stat, 0), "large_pool": dict(stat)}

    blocks = book.allocations - book.frees
    segments = book.reserved // (2 * 2**20)
    in_use = pools(book.allocated, book.peak, book.total, book.total - book.allocated)
    return {
        "num_alloc_retries": 0,
        "num_ooms": book.failures,
        "num_sync_all_streams": 0,
        "num_device_alloc": segments,
        "num_device_free": 0,
        "max_split_size": -1,
        "allocation": pools(blocks, blocks, book.allocations, book.frees),
        "segment": pools(segments, book.reserved_peak // (2 * 2**20), segments, 0),
        "active": pools(blocks, blocks, book.allocations, book.frees),
        "inactive_split": pools(0, 0, 0, 0),
        "allocated_bytes": in_use,
        "reserved_bytes": pools(
            book.reserved, book.reserved_peak, book.reserved_peak, book.reserved_peak - book.reserved
        ),
        "active_bytes": in_use,
        "inactive_split_bytes": pools(book.reserved - book.allocated, 0, 0, 0),
        "requested_bytes": pools(book.requested, book.requested_peak, book.requested_peak, 0),
        "oversize_allocations": {"current": 0, "peak": 0, "allocated": 0, "freed": 0},
        "oversize_segments": {"current": 0, "peak": 0, "allocated": 0, "freed": 0},
    }


def flat_stats(device: Any = None) -> dict[str, int]:
    """What `memory_stats` gives: the nested figures under dotted names, in alphabetical order."""
    flat: dict[str, int] = {}

    def visit(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                visit(f"{prefix}.{key}" if prefix else key, item)
        else:
            flat[prefix] = value

    visit("", nested_stats(device))
    return dict(sorted(flat.items()))


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes, as the driver sees them."""
    book = ledger(device)
    return book.available, book.capacity


def empty_cache() -> None:
    """Give back what is not in use, on every device."""
    for book in current().ledgers.values():
        book.empty_cache()


def set_fraction(fraction: float, device: Any = None) -> None:
    """`set_per_process_memory_fraction`."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    ledger(device).fraction = fraction


ANSWERS: dict[str, Any] = {
    "memory_stats_as_nested_dict": nested_stats,
    "memory_stats": flat_stats,
    "memory_allocated": lambda device=None: ledger(device).allocated,
    "max_memory_allocated": lambda device=None: ledger(device).peak,
    "memory_reserved": lambda device=None: ledger(device).reserved,
    "max_memory_reserved": lambda device=None: ledger(device).reserved_peak,
    "memory_cached": lambda device=None: ledger(device).reserved,
    "max_memory_cached": lambda device=None: ledger(device).reserved_peak,
    "reset_peak_memory_stats": lambda device=None: ledger(device).reset_peak(),
    "reset_max_memory_allocated": lambda device=None: ledger(device).reset_peak(),
    "reset_max_memory_cached": lambda device=None: ledger(device).reset_peak(),
    "reset_accumulated_memory_stats": lambda device=None: ledger(device).reset_totals(),
    "mem_get_info": mem_get_info,
    "get_memory_info": mem_get_info,
    "device_memory_used": lambda device=None: ledger(device).reserved,
    "empty_cache": empty_cache,
    "empty_host_cache": lambda: None,
    "set_per_process_memory_fraction": set_fraction,
    "get_per_process_memory_fraction": lambda device=None: ledger(device).fraction,
    "host_memory_stats": lambda: {},
    "host_memory_stats_as_nested_dict": lambda: {},
    "reset_accumulated_host_memory_stats": lambda: None,
    "reset_peak_host_memory_stats": lambda: None,
    "get_allocator_backend": lambda: "native",
}
REFUSED = (
    "memory_snapshot",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_enable",
    "change_current_allocator",
    "CUDAPluggableAllocator",
    "XPUPluggableAllocator",
    "MemPool",
    "use_mem_pool",
)


def install(patches: Patches, simulation: Simulation) -> None:
    """Answer for the module of the world's devices, and for `torch.accelerator`."""
    kind = simulation.world.device_type
    if kind is None:
        return
    modules = [torch.accelerator] if hasattr(torch, "accelerator") else []
    if kind in ("cuda", "xpu"):
        modules.append(getattr(torch, kind))
    for module in modules:
        patches.known(module, ANSWERS)
        patches.known(module, {name: refusing(f"{module.__name__}.{name}") for name in REFUSED})
