"""Settings for all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# In CI every run tries the same examples; by hand each run tries new ones, and --hypothesis-seed others.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
