"""Starts the simulation in a child process when it imports PyTorch. Beside `anydevice.sim`, whose import imports PyTorch."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType


class AfterTorch(importlib.abc.MetaPathFinder):
    """Starts the simulation when PyTorch has been imported; a child that never does pays nothing."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of `torch`, whose loader starts the simulation at its end."""
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            from anydevice.sim.processes.children import start

            start()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
