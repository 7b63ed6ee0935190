"""anydevice: find, rewrite and check what ties PyTorch code to one device."""

from __future__ import annotations

__version__ = "0.1.0"
