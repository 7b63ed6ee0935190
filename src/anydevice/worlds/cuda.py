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
)
