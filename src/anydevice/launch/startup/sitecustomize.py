"""Runs at the start of each Python process that inherits a simulated world or a redirection, then gives way to the user's own."""

import importlib.util
import os
import sys
from importlib.machinery import PathFinder

_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _here]

if ("ANYDEVICE_SIM" in os.environ or "ANYDEVICE_RUN" in os.environ) and importlib.util.find_spec(
    "anydevice"
) is not None:
    from anydevice.launch.after_torch import AfterTorch

    sys.meta_path.insert(0, AfterTorch())

_next = PathFinder.find_spec("sitecustomize", sys.path)
if _next is not None and _next.loader is not None:
    _next.loader.exec_module(importlib.util.module_from_spec(_next))
