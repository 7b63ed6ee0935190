"""Which torch the rewritten code must run on, and what that torch offers.

The first release of each name was read from the official wheels 2.3 to 2.14 (see docs/torch-versions.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from packaging.version import Version

DEFAULT = Version("2.6")  # the first release with torch.accelerator

SINCE = {
    "torch.device": "0.4",
    "torch.amp.autocast": "1.10",
    "torch.set_default_device": "2.0",
    "torch.amp.GradScaler": "2.3",
    "torch.amp.custom_fwd": "2.4",
    "torch.get_autocast_dtype": "2.4",
    "torch.get_device_module": "2.4",
    "torch.Event": "2.4",
    "torch.OutOfMemoryError": "2.5",
    "torch.autocast.mps": "2.5",  # raises before (amp/autocast_mode.py); bfloat16 since 2.6
    "torch.accelerator": "2.6",
    "torch.distributed.get_default_backend_for_device": "2.6",
    "torch.Stream.__enter__": "2.7",
    "torch.accelerator.device_index": "2.8",
    "torch.accelerator.empty_cache": "2.9",
    "torch.accelerator.memory_allocated": "2.9",
    "torch.accelerator.get_memory_info": "2.10",
    "torch.accelerator.Graph": "2.12",
}


@dataclass(frozen=True)
class Target:
    """The oldest torch that the code has to support."""

    torch: Version = DEFAULT

    @classmethod
    def parse(cls, version: str) -> Target:
        """`Target.parse("2.6")`; raises `packaging.version.InvalidVersion`."""
        return cls(Version(version))

    def has(self, name: str) -> bool:
        """Whether the oldest supported torch has `name`, a key of `SINCE`."""
        return self.torch >= Version(SINCE[name])

    @property
    def has_accelerator(self) -> bool:
        """Whether `torch.accelerator` may be written."""
        return self.has("torch.accelerator")
