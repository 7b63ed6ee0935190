"""Intel GPUs, after a Data Center GPU Max 1550."""

from anydevice.worlds.world import GIB, World

WORLD = World(
    name="xpu",
    device_type="xpu",
    count=1,
    limit=64,
    memory=64 * GIB,
    device_name="Intel(R) Data Center GPU Max 1550",
    multi_processor_count=512,
    has_streams=True,
    versions={"xpu": "20250301"},
    collectives=("gloo", "xccl"),
    texts={
        # c10/xpu/XPUCachingAllocator.cpp
        "out of memory": (
            "XPU out of memory. Tried to allocate {wanted}. GPU {index} has a total capacity of {capacity}. Of the "
            "allocated memory {allocated} is allocated by PyTorch, and {cached} is reserved by PyTorch but unallocated. "
            "Please use `empty_cache` to release all unoccupied cached memory."
        ),
        # c10/xpu/XPUFunctions.cpp, `check_device_index`
        "invalid ordinal": "The device index is out of range. It must be in [0, {count}), but got {index}.",
    },
)
