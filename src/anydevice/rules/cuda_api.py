"""What becomes of every public name of `torch.cuda`: its counterpart, since when, and its value where there is no CUDA.

Read from torch 2.13 (`torch.cuda.__all__`, and what each call does on a CPU-only build) and from the wheels 2.3 to 2.14
(since when a counterpart exists). The rules of groups E to H are driven by this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from packaging.version import Version

from anydevice.rules.target import Target


class Fate(str, Enum):
    """What a fix makes of a name."""

    ACCELERATOR = "accelerator"  # torch.accelerator.<counterpart>, once the target has it; a guarded CUDA call before
    TORCH = "torch"  # torch.<counterpart>: one name for every device
    MODULE = "module"  # torch.get_device_module().<same name>: cuda, xpu, mps and mtia all have it
    GUARDED = "guarded"  # stays CUDA's own, asked only where CUDA is; `otherwise` stands in elsewhere
    QUIET = "quiet"  # stays: it does no harm where CUDA is missing
    OTHER = "other"  # another family's rule rewrites it (amp, typed tensors, is_available ...)
    CUDA = "cuda"  # exists on CUDA only and its value is needed: for a person to decide


@dataclass(frozen=True)
class Api:
    """One name below `torch.cuda`.

    `since`: the torch from which the counterpart runs on CUDA, XPU and MPS alike. `otherwise`: what a call whose value
    is used gives where there is no accelerator (None: there is no sensible value). `note`: what to write by hand.
    `needs_review`: a guard alone may not do (events, streams whose later uses cannot all be seen).
    """

    fate: Fate
    counterpart: str = ""
    since: str = "2.6"
    otherwise: str | None = None
    note: str = ""
    needs_review: bool = False

    def in_target(self, target: Target) -> bool:
        """Whether the oldest supported torch has the counterpart."""
        return target.torch >= Version(self.since)


def _accelerator(counterpart: str, since: str = "2.6", otherwise: str | None = None, note: str = "") -> Api:
    return Api(Fate.ACCELERATOR, counterpart, since, otherwise, note)


def _guarded(otherwise: str | None = None, note: str = "") -> Api:
    return Api(Fate.GUARDED, otherwise=otherwise, note=note)


def _cuda(note: str = "") -> Api:
    return Api(Fate.CUDA, note=note)


_QUIET = Api(Fate.QUIET)
_OTHER = Api(Fate.OTHER)

# The memory calls of torch.accelerator exist since 2.9, but assert on MPS before 2.13 (pytorch#167447, #186430).
_MEMORY = "2.13"
MEMORY_SINCE = Version(_MEMORY)

MANAGEMENT: dict[str, Api] = {
    "synchronize": _accelerator("synchronize"),
    "set_device": _accelerator("set_device_index"),
    "current_device": _accelerator("current_device_index", otherwise="0"),
    "device_count": _accelerator("device_count", otherwise="0"),
    "device": _accelerator("device_index", "2.8"),  # before: a null context where there is no CUDA
    "device_of": _QUIET,
    "get_device_name": _guarded("None", "the name of the device type"),
    "get_device_properties": _guarded("None"),
    "get_device_capability": _guarded("(0, 0)", "torch.accelerator.get_device_capability gives a dict of dtypes"),
    "get_arch_list": _QUIET,
    "get_gencode_flags": _QUIET,
    "is_bf16_supported": _guarded("False"),
    "is_tf32_supported": _guarded("False"),
    "has_half": _QUIET,
    "has_magma": _QUIET,
    "is_initialized": _QUIET,
    "init": _guarded(),
    "ipc_collect": _guarded(),
    "can_device_access_peer": _guarded("False"),
    "list_gpu_processes": _guarded('""'),
    "utilization": _guarded("0"),
    "temperature": _guarded("0"),
    "power_draw": _guarded("0"),
    "clock_rate": _guarded("0"),
    "set_sync_debug_mode": _guarded(),
    "get_sync_debug_mode": _guarded("0"),
    "OutOfMemoryError": Api(Fate.TORCH, "OutOfMemoryError", "2.5"),
    "AcceleratorError": Api(Fate.TORCH, "AcceleratorError", "2.8"),
    "cudart": _cuda("calls into the CUDA runtime"),
    "cudaStatus": _cuda(),
    "check_error": _cuda(),
    "CudaError": _cuda(),
    "DeferredCudaCallError": _cuda(),
    "current_blas_handle": _cuda("a raw cuBLAS handle"),
    "current_solver_handle": _cuda("a raw cuSOLVER handle"),
    "caching_allocator_alloc": _cuda("raw CUDA memory"),
    "caching_allocator_delete": _cuda("raw CUDA memory"),
    "caching_allocator_disabled": _cuda(),
    "caching_allocator_enable": _guarded(),
    "CUDAPluggableAllocator": _cuda("the allocator of the CUDA build"),
    "change_current_allocator": _guarded(),
    "get_allocator_backend": _guarded("None"),
    "MemPool": _cuda(),
    "use_mem_pool": _cuda(),
    "GreenContext": _cuda(),
    "jiterator": _cuda("compiles CUDA source: write the function with torch operators, or torch.compile it"),
    "tunable": _guarded(note="tunes the kernels of cuBLAS and rocBLAS"),
    # not public, but met
    "_sleep": _guarded(),
    "_lazy_init": _guarded(),
    "_record_memory_history": _guarded(),
    "_dump_snapshot": _guarded(),
    "_is_in_bad_fork": _QUIET,
    "_is_compiled": _QUIET,
}

MEMORY: dict[str, Api] = {
    "empty_cache": Api(Fate.MODULE, "empty_cache"),
    "memory_allocated": _accelerator("memory_allocated", _MEMORY, "0"),
    "max_memory_allocated": _accelerator("max_memory_allocated", _MEMORY, "0"),
    "memory_reserved": _accelerator("memory_reserved", _MEMORY, "0"),
    "max_memory_reserved": _accelerator("max_memory_reserved", _MEMORY, "0"),
    "memory_cached": _accelerator("memory_reserved", _MEMORY, "0"),
    "max_memory_cached": _accelerator("max_memory_reserved", _MEMORY, "0"),
    "memory_stats": _accelerator("memory_stats", _MEMORY, "{}"),
    "reset_peak_memory_stats": _accelerator("reset_peak_memory_stats", _MEMORY),
    "reset_accumulated_memory_stats": _accelerator("reset_accumulated_memory_stats", _MEMORY),
    "reset_max_memory_allocated": _accelerator("reset_peak_memory_stats", _MEMORY),
    "reset_max_memory_cached": _accelerator("reset_peak_memory_stats", _MEMORY),
    "mem_get_info": _accelerator("get_memory_info", _MEMORY, "(0, 0)"),
    "memory_stats_as_nested_dict": _guarded("{}"),
    "host_memory_stats": _guarded("{}"),
    "host_memory_stats_as_nested_dict": _guarded("{}"),
    "reset_peak_host_memory_stats": _guarded(),
    "reset_accumulated_host_memory_stats": _guarded(),
    "memory_summary": _guarded('""'),
    "memory_snapshot": _guarded("[]"),
    "memory_usage": _guarded("0"),
    "device_memory_used": _guarded("0"),
    "set_per_process_memory_fraction": _guarded(),
    "get_per_process_memory_fraction": _guarded("1.0"),
}

RANDOM: dict[str, Api] = {
    "manual_seed": Api(Fate.QUIET, "manual_seed"),
    "manual_seed_all": Api(Fate.QUIET, "manual_seed"),
    "seed": Api(Fate.QUIET, "seed"),
    "seed_all": Api(Fate.QUIET, "seed"),
    "initial_seed": _guarded("None"),
    "get_rng_state": Api(Fate.MODULE, "get_rng_state", otherwise="None"),
    "set_rng_state": Api(Fate.MODULE, "set_rng_state"),
    "get_rng_state_all": _QUIET,
    "set_rng_state_all": _QUIET,
    "default_generators": _guarded("()"),
}

STREAMS: dict[str, Api] = {
    "Stream": Api(Fate.GUARDED, otherwise="None", needs_review=True),
    "stream": _guarded(),
    "current_stream": _guarded("None"),
    "default_stream": _guarded("None"),
    "set_stream": _guarded(),
    "StreamContext": _guarded(),
    "ExternalStream": _cuda("a raw CUDA stream"),
    "get_stream_from_external": _cuda("a raw CUDA stream"),
    "Event": _cuda("torch.Event(enable_timing=True) on an accelerator, time.perf_counter() on the CPU"),
    "is_current_stream_capturing": _guarded("False"),
    "CUDAGraph": _cuda("run the function as it is where there is no CUDA"),
    "graph": _cuda("run the function as it is where there is no CUDA"),
    "graphs": _cuda(),
    "graph_pool_handle": _cuda(),
    "make_graphed_callables": _cuda("use the callables as they are where there is no CUDA"),
    "nvtx": _guarded(),
    "profiler": _guarded(),
}

# Written by the rules of other families: B is_available, D typed tensors and storages, I amp, L comm and nccl.
ELSEWHERE: dict[str, Api] = {
    "is_available": _OTHER,
    "amp": _OTHER,
    "comm": _OTHER,
    "nccl": _OTHER,
    "sparse": _OTHER,
    **{
        f"{kind}{what}": _OTHER
        for kind in (
            "Float",
            "Double",
            "Half",
            "BFloat16",
            "Long",
            "Int",
            "Short",
            "Char",
            "Byte",
            "Bool",
            "ComplexFloat",
            "ComplexDouble",
        )
        for what in ("Tensor", "Storage")
    },
}

# The rule of group E that asks after a name; what is in none of these sets is left to `cuda-only-api`.
UTILITIES = frozenset(
    {
        "synchronize",
        "empty_cache",
        "ipc_collect",
        "init",
        "set_sync_debug_mode",
        "get_sync_debug_mode",
        "change_current_allocator",
        "caching_allocator_enable",
        "get_allocator_backend",
        "can_device_access_peer",
        "list_gpu_processes",
        "utilization",
        "temperature",
        "power_draw",
        "clock_rate",
    }
)
DEVICE_QUERIES = frozenset({"get_device_name", "get_device_properties", "get_device_capability"})
DEVICE_RULES = frozenset({"set_device", "device_count", "current_device", "device", "device_of", "OutOfMemoryError"})
DTYPE_QUERIES = frozenset({"is_bf16_supported", "is_tf32_supported", "has_half"})

# What these submodules hold is looked up under its own name: torch.cuda.memory.empty_cache.
SUBMODULES = frozenset({"memory", "random", "streams"})

TABLE: dict[str, Api] = {**MANAGEMENT, **MEMORY, **RANDOM, **STREAMS, **ELSEWHERE}
CLAIMED = frozenset(
    {*UTILITIES, *DEVICE_QUERIES, *DEVICE_RULES, *DTYPE_QUERIES, *MEMORY, *RANDOM, *STREAMS, *ELSEWHERE, "cudart"}
)


def member(qualname: str | None) -> str | None:
    """The name below `torch.cuda` that a qualified name stands for: `nvtx.range` of `torch.cuda.nvtx.range`."""
    if qualname is None or not qualname.startswith("torch.cuda."):
        return None
    name = qualname.removeprefix("torch.cuda.")
    head, _, tail = name.partition(".")
    return tail if head in SUBMODULES and tail else name


def lookup(name: str) -> Api | None:
    """The entry of `synchronize`, `torch.cuda.synchronize`, or `nvtx.mark`; None for what is not public."""
    name = member(name) or name
    return TABLE.get(name) or TABLE.get(name.partition(".")[0])


def is_portable(name: str, target: Target | None = None) -> bool:
    """Whether `torch.cuda.<name>` may stand in a branch that is opened to every accelerator.

    It may when a rule writes a form of it that runs on all of them (and that never asks for CUDA), or when it does no
    harm where CUDA is missing. What only gets a CUDA guard of its own is not portable, see `is_guardable`.
    """
    api = lookup(name)
    if api is None or api.fate in (Fate.CUDA, Fate.GUARDED):
        return False
    return api.fate in (Fate.QUIET, Fate.OTHER) or api.in_target(target or Target())


def is_guardable(name: str) -> bool:
    """Whether a rule puts `torch.cuda.<name>(...)` behind `torch.cuda.is_available()` when nothing else does.

    A branch may be opened to every accelerator if all that it holds is portable or guardable, and something in it
    gains by that: a branch of guardable calls alone (`torch.cuda.ipc_collect()`) is CUDA's own and right as it is.
    """
    api = lookup(name)
    return api is not None and api.fate is not Fate.CUDA and not api.needs_review
