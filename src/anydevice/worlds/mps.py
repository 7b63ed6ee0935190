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
        # ATen/mps/MPSAllocator.mm
        "out of memory": (
            "MPS backend out of memory (MPS allocated: {allocated}, other allocations: {cached}, max allowed: {allowed}). "
            "Tried to allocate {wanted} on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit "
            "for memory allocations (may cause system failure)."
        ),
        "invalid ordinal": "MPS has one device, and no index {index}",
        # ATen/native/mps/operations/Linear.mm
        "guard": "Tensor for argument {argument} is on {device} but expected on mps",
        "missing dtype": (
            "Cannot convert a MPS Tensor to {dtype} dtype as the MPS framework doesn't support {dtype}. "
            "Please use float32 instead."
        ),
    },
)
