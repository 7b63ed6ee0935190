"""Packages that exist for CUDA machines only: for which platforms they have wheels, and what does without them."""

from __future__ import annotations

import re

NOT_MAC, MAC, LINUX = 'sys_platform != "darwin"', 'sys_platform == "darwin"', 'sys_platform == "linux"'
# Published under the same number on PyPI for macOS, which is what makes the second line certain to resolve.
ON_PYPI = frozenset({"torch", "torchvision", "torchaudio", "torchtext"})

# Wheels on PyPI for Linux and Windows, or for Linux alone; the first that matches counts.
WHEELS = (
    (re.compile(r"nvidia-(?:nccl|cufile|nvshmem)(?:-cu\d+)?\Z|(?:pytorch-)?triton\Z"), "Linux", LINUX),
    (
        re.compile(
            r"nvidia-(?:cublas|cuda-(?:runtime|nvrtc|cupti|nvcc|cccl)|cudnn|cufft|curand|cusolver|cusparse(?:lt)?|nvtx|nvjitlink)(?:-cu\d+)?\Z"
            r"|cupy-cuda\d+x?\Z"
        ),
        "Linux and Windows",
        NOT_MAC,
    ),
)

# What a person has to decide, and the usual answer.
ADVICE = {
    "flash-attn": "fall back to `torch.nn.functional.scaled_dot_product_attention` where its import fails",
    "xformers": "fall back to `torch.nn.functional.scaled_dot_product_attention` where its import fails",
    "bitsandbytes": "load full-precision weights and use `torch.optim.AdamW` where its import fails",
    "apex": "use `torch.amp` and `torch.nn.parallel.DistributedDataParallel`, which replaced it",
    "deepspeed": "import it only where it is asked for",
    "transformer-engine": "use `torch.nn` layers where its import fails",
    "mamba-ssm": "take its reference implementation in plain PyTorch where its import fails",
    "causal-conv1d": "use `torch.nn.functional.conv1d` where its import fails",
    "sageattention": "fall back to `torch.nn.functional.scaled_dot_product_attention` where its import fails",
    "liger-kernel": "use `torch.nn` layers where its import fails",
    "auto-gptq": "load unquantised weights where its import fails",
    "autoawq": "load unquantised weights where its import fails",
    "faiss-gpu": "require `faiss-cpu`, which has the same API less the GPU indexes",
    "onnxruntime-gpu": "require `onnxruntime`, and ask `onnxruntime.get_available_providers()`",
    "cupy": "use `numpy` where its import fails",
    "pycuda": "write the kernel's work in PyTorch where its import fails",
    "cudf": "use `pandas` where its import fails",
    "cuml": "use `scikit-learn` where its import fails",
    "spconv": "guard the modules that need it",
    "minkowskiengine": "guard the modules that need it",
    "nvdiffrast": "guard the modules that need it",
    "tiny-cuda-nn": "use `torch.nn` layers where its import fails",
    "tinycudann": "use `torch.nn` layers where its import fails",
    "kaolin": "guard the modules that need it",
    "gsplat": "guard the modules that need it",
    "tensorrt": "run the PyTorch model where its import fails",
    "torch-tensorrt": "run the PyTorch model where its import fails",
    "nvidia-dali": "use `torchvision.transforms` where its import fails",
    "dgl": "require the plain `dgl`",
    "fbgemm-gpu": "guard the modules that need it",
    "nvidia-tensorrt": "run the PyTorch model where its import fails",
}
_ALIASES = {
    "flash-attention": "flash-attn",
    "transformerengine": "transformer-engine",
    "mamba": "mamba-ssm",
    "rapids": "cudf",
}
_SUFFIX = re.compile(r"-(?:cuda|cu)\d+x?\Z")


def advice(name: str) -> str | None:
    """The usual answer for a package that only CUDA machines can install or use."""
    name = _ALIASES.get(name, name)
    plain = _SUFFIX.sub("", name)
    if plain in ("dgl", "spconv") and plain == name:
        return None  # the plain packages run on the CPU
    return ADVICE.get(plain)
