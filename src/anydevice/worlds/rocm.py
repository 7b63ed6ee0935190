"""AMD GPUs, after an MI250X half: PyTorch calls them `cuda`, and says `torch.version.hip`."""

from anydevice.worlds.world import GIB, World

WORLD = World(
    name="rocm",
    device_type="cuda",
    count=1,
    limit=64,
    memory=64 * GIB,
    device_name="AMD Instinct MI250X",
    capability=(9, 0),  # gfx90a
    multi_processor_count=110,
    has_streams=True,
    versions={"hip": "6.4.43482"},
    collectives=("gloo", "nccl"),  # RCCL answers to NCCL's name
    texts={
        # c10/cuda/CUDACachingAllocator.cpp
        "out of memory": (
            "HIP out of memory. Tried to allocate {wanted}. GPU {index} has a total capacity of {capacity} of which {free} "
            "is free. Including non-PyTorch memory, this process has {used} memory in use. Of the allocated memory "
            "{allocated} is allocated by PyTorch, and {cached} is reserved by PyTorch but unallocated. If reserved but "
            "unallocated memory is large try setting PYTORCH_HIP_ALLOC_CONF=expandable_segments:True to avoid "
            "fragmentation.  See documentation for Memory Management  "
            "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
        ),
        # c10/cuda/CUDAException.cpp
        "initialization error": (
            "HIP error: initialization error\n"
            "HIP kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
            "incorrect.\n"
            "For debugging consider passing AMD_SERIALIZE_KERNEL=3\n"
            "Compile with `TORCH_USE_HIP_DSA` to enable device-side assertions.\n"
        ),
        # c10/cuda/CUDAException.cpp
        "invalid ordinal": (
            "HIP error: invalid device ordinal\n"
            "GPU device may be out of range, do you have enough GPUs?\n"
            "HIP kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
            "incorrect.\n"
            "For debugging consider passing AMD_SERIALIZE_KERNEL=3\n"
            "Compile with `TORCH_USE_HIP_DSA` to enable device-side assertions.\n"
        ),
        # c10/cuda/CUDAException.cpp
        "device-side assert": (
            "HIP error: device-side assert triggered\n"
            "HIP kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
            "incorrect.\n"
            "For debugging consider passing AMD_SERIALIZE_KERNEL=3\n"
            "Compile with `TORCH_USE_HIP_DSA` to enable device-side assertions.\n"
        ),
    },
)
