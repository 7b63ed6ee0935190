"""NVIDIA GPUs, after an A100: every dtype and feature that PyTorch's CUDA build has, but for float8 arithmetic."""

from anydevice.worlds.world import GIB, World

WORLD = World(
    name="cuda",
    device_type="cuda",
    count=1,
    limit=64,  # C10_COMPILE_TIME_MAX_GPUS is 120; more than a machine of today holds
    memory=40 * GIB,
    device_name="NVIDIA A100-SXM4-40GB",
    capability=(8, 0),
    multi_processor_count=108,
    has_streams=True,
    versions={"cuda": "12.6"},
    collectives=("gloo", "nccl"),
    texts={
        # c10/cuda/CUDACachingAllocator.cpp
        "out of memory": (
            "CUDA out of memory. Tried to allocate {wanted}. GPU {index} has a total capacity of {capacity} of which {free} "
            "is free. Including non-PyTorch memory, this process has {used} memory in use. Of the allocated memory "
            "{allocated} is allocated by PyTorch, and {cached} is reserved by PyTorch but unallocated. If reserved but "
            "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
            "fragmentation.  See documentation for Memory Management  "
            "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
        ),
        # c10/cuda/CUDAException.cpp
        "initialization error": (
            "CUDA error: initialization error\n"
            "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
            "incorrect.\n"
            "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
            "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
        ),
        # c10/cuda/CUDAException.cpp
        "invalid ordinal": (
            "CUDA error: invalid device ordinal\n"
            "GPU device may be out of range, do you have enough GPUs?\n"
            "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
            "incorrect.\n"
            "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
            "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
        ),
        # c10/cuda/CUDAException.cpp
        "device-side assert": (
            "CUDA error: device-side assert triggered\n"
            "Search for `cudaErrorAssert' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more "
            "information.\n"
            "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
            "incorrect.\n"
            "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
            "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
        ),
    },
)
