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
)
