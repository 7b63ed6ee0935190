"""Kernels written for CUDA: there is nothing to send them to, and the error says what to do instead."""

from __future__ import annotations

from typing import Any

from anydevice.patching.patches import Patches
from anydevice.redirect.redirection import NoCounterpart, Redirection

_INSTEAD = "give it a PyTorch fallback for other devices, or run it on a CUDA machine"


def install(patches: Patches, redirection: Redirection) -> None:
    """Refuse to build them."""
    from torch.utils import cpp_extension

    load, load_inline = cpp_extension.load, cpp_extension.load_inline

    def of_files(name: str, sources: Any, *args: Any, **kwargs: Any) -> Any:
        named = [sources] if isinstance(sources, str) else list(sources)
        cuda = [str(source) for source in named if str(source).endswith((".cu", ".cuh"))]
        if cuda:
            raise NoCounterpart(f"the CUDA kernel '{name}' ({', '.join(cuda)})", _INSTEAD)
        return load(name, sources, *args, **kwargs)

    def inline(name: str, cpp_sources: Any, cuda_sources: Any = None, *args: Any, **kwargs: Any) -> Any:
        if cuda_sources:
            raise NoCounterpart(f"the CUDA kernel '{name}' given to load_inline", _INSTEAD)
        return load_inline(name, cpp_sources, cuda_sources, *args, **kwargs)

    def extension(name: str, *args: Any, **kwargs: Any) -> Any:
        raise NoCounterpart(f"the CUDA extension '{name}'", _INSTEAD)

    patches.everywhere(cpp_extension, "load", of_files)
    patches.everywhere(cpp_extension, "load_inline", inline)
    patches.everywhere(cpp_extension, "CUDAExtension", extension)
