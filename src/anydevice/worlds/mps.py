"""The GPU of an Apple Silicon Mac: one device, no float64, no streams."""

from anydevice.worlds.world import GIB, World

WORLD = World(
    name="mps",
    device_type="mps",
    count=1,
    limit=1,
    memory=16 * GIB,
    device_name="Apple M2",
    missing_dtypes=frozenset({"float64", "complex128"}),
    texts={
        "missing dtype": (
            "Cannot convert a MPS Tensor to {dtype} dtype as the MPS framework doesn't support {dtype}. "
            "Please use float32 instead."
        ),
    },
)
