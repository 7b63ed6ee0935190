"""Graphs: what runs during the capture is kept as a list of operators, and a replay runs them again on the same tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from anydevice.patching.patches import Patches
from anydevice.sim.nested import tensors_in
from anydevice.sim.simulation import Simulation


class _Capture(TorchDispatchMode):
    """Keeps every operator with its arguments and results."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        self.steps.append((func, args, kwargs or {}, out))
        return out


class Graph:
    """`torch.cuda.CUDAGraph`, `torch.xpu.XPUGraph` and `torch.accelerator.Graph`."""

    def __init__(self, keep_graph: bool = False, **options: Any) -> None:
        self._capture: _Capture | None = None
        self._open = False

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Begin to keep operators."""
        self._capture = _Capture()
        self._capture.__enter__()
        self._open = True

    def capture_end(self) -> None:
        """Cease to keep operators."""
        if self._capture is None or not self._open:
            raise RuntimeError("capture_end() was called without capture_begin()")
        self._capture.__exit__(None, None, None)
        self._open = False

    def instantiate(self) -> None:
        """Nothing remains to be done."""

    def replay(self) -> None:
        """Run the kept operators again, into the tensors that they made."""
        if self._capture is None or self._open:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        with torch.no_grad():
            for func, args, kwargs, out in self._capture.steps:
                again = func(*args, **kwargs)
                for old, new in zip(tensors_in(out), tensors_in(again), strict=True):
                    if old.untyped_storage()._cdata != new.untyped_storage()._cdata:
                        old.copy_(new)

    def reset(self) -> None:
        """Forget the operators."""
        self._capture = None

    def pool(self) -> tuple[int, int]:
        """The handle of its memory pool."""
        return 0, id(self)

    def enable_debug_mode(self) -> None:
        """Nothing to tell."""

    def debug_dump(self, debug_path: str) -> None:
        """Nothing to write."""

    def __enter__(self) -> Graph:
        self.capture_begin()
        return self

    def __exit__(self, *exception: object) -> None:
        self.capture_end()


class graph:
    """`with torch.cuda.graph(g):`."""

    def __init__(self, cuda_graph: Graph, pool: Any = None, stream: Any = None, **options: Any) -> None:
        self._graph = cuda_graph

    def __enter__(self) -> None:
        self._graph.capture_begin()

    def __exit__(self, *exception: object) -> None:
        self._graph.capture_end()


def make_graphed_callables(callables: Any, sample_args: Any, *args: Any, **kwargs: Any) -> Any:
    """The callables themselves: run as they are they give the same numbers."""
    return callables


def install(patches: Patches, simulation: Simulation) -> None:
    """Replace the graphs of the back end."""
    kind = simulation.world.device_type
    if kind not in ("cuda", "xpu"):
        return
    module = getattr(torch, kind)
    answers: dict[str, Callable[..., Any]] = {
        "CUDAGraph": Graph,
        "XPUGraph": Graph,
        "Graph": Graph,
        "graph": graph,
        "graph_pool_handle": lambda: (0, 0),
        "make_graphed_callables": make_graphed_callables,
    }
    for owner in (module, getattr(torch, "accelerator", None)):
        patches.known(owner, answers)
