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
)
