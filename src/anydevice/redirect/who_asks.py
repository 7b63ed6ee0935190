"""Who is told that CUDA is available: the program is, libraries that would then call kernels of CUDA are not."""

from __future__ import annotations

import sys

# top-level package -> why it must not believe in CUDA
LIBRARIES: dict[str, str] = {
    "torch": "chooses between its own kernels",
    "torchvision": "loads CUDA kernels of its own",
    "torchaudio": "loads CUDA kernels of its own",
    "triton": "compiles for NVIDIA GPUs",
    "accelerate": "chooses nccl and CUDA's memory functions",
    "bitsandbytes": "calls CUDA kernels of its own",
    "apex": "calls CUDA kernels of its own",
    "flash_attn": "calls CUDA kernels of its own",
    "xformers": "calls CUDA kernels of its own",
    "deepspeed": "compiles CUDA kernels of its own",
    "vllm": "calls CUDA kernels of its own",
    "transformers": "chooses attention and quantisation kernels of CUDA",
    "cupy": "calls the CUDA runtime",
    "numba": "calls the CUDA driver",
}


def library(depth: int = 2) -> str | None:
    """The listed library whose code asks; None where it is the program or any other package.

    Args:
        depth: frames between the asker and this function.
    """
    name = sys._getframe(depth).f_globals.get("__name__") or ""
    top: str = name.partition(".")[0]
    return top if top in LIBRARIES else None
