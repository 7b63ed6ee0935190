"""The names by which options and configuration keys ask for CUDA, and what their values mean."""

from __future__ import annotations

import re

# Options whose value numbers GPUs, counts them, or turns their use on or off. Compared in lower case, `-` as `_`.
NUMBERS = frozenset(
    (
        "gpu", "gpus", "gpu_id", "gpu_ids", "gpuid", "gpuids", "gpu_list", "gpu_index", "gpu_idx", "gpu_no",
        "gpu_number", "gpu_device", "gpu_devices", "device_id", "device_ids", "cuda_id", "cuda_ids", "cuda_device",
        "cuda_devices", "cuda_index", "visible_gpus", "visible_devices", "cuda_visible_devices", "which_gpu",
        "main_gpu", "gpu_use", "use_gpu_id",
    )
)  # fmt: skip
COUNTS = frozenset(
    (
        "n_gpu", "n_gpus", "ngpu", "ngpus", "num_gpu", "num_gpus", "gpu_num", "gpu_nums", "gpu_count",
        "gpus_per_node", "ngpus_per_node", "num_gpus_per_node",
    )
)  # fmt: skip
FLAGS = frozenset(
    (
        "cuda", "gpu", "use_cuda", "use_gpu", "use_gpus", "usecuda", "usegpu", "enable_cuda", "enable_gpu",
        "with_cuda", "on_gpu", "gpu_mode", "is_cuda", "is_gpu", "use_cuda_if_available", "cuda_enabled",
        "gpu_enabled", "run_on_gpu", "to_gpu",
    )
)  # fmt: skip
OFF_FLAGS = frozenset(
    (
        "no_cuda", "no_gpu", "nocuda", "nogpu", "disable_cuda", "disable_gpu", "no_gpus", "without_cuda",
    )
)  # fmt: skip

_DEVICE = re.compile(r"(?:cuda|gpu)(?::\d+)?(?:\s*,\s*(?:cuda:)?\d+)*\Z", re.I)
_NUMBER = re.compile(r"\[?\s*\d{1,2}(?:\s*[,\s]\s*\d{1,2})*\s*,?\s*\]?\Z")
# Names that other things than GPUs have too: cameras, phones, sensors.
AMBIGUOUS = frozenset({"device_id", "device_ids", "visible_devices", "devices"})
TRUE = frozenset({"true", "yes", "on", "1"})


def plain(name: str) -> str:
    """The name as the tables have it."""
    return name.strip("-").replace("-", "_").rpartition(".")[2].lower()


def is_device(value: str) -> bool:
    """Whether a value spells a CUDA device: `cuda`, `cuda:0`, `gpu`, `cuda:0,1`."""
    return bool(_DEVICE.match(value))


def is_number(value: str) -> bool:
    """Whether a value numbers GPUs: `0`, `0,1`, `[0, 1]`; `-1` and nothing stand for the CPU or for all."""
    return bool(_NUMBER.match(value))
