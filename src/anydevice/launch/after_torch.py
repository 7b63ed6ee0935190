"""Starts the simulation or the redirection in a child when it imports PyTorch. Apart from both, which import PyTorch."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType


class AfterTorch(importlib.abc.MetaPathFinder):
    """Starts either when PyTorch has been imported; a child that never does pays nothing."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of `torch`, whose loader starts it at its end."""
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if "ANYDEVICE_SIM" in os.environ:
                from anydevice.sim.processes.children import start
            else:
                from anydevice.redirect.children import start

            start()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
