"""Files into listings, one module per format. A file is data: nothing is run, and nothing is fetched."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from anydevice.doctor.lockcheck.listing import Listing, settled
from anydevice.doctor.lockcheck.reading.text import Unreadable

# module of this package -> the names of files that it reads
_FORMATS = (
    ("uv_lock", re.compile(r"uv\.lock|.*\.uv\.lock")),
    ("poetry_lock", re.compile(r"poetry\.lock|.*\.poetry\.lock")),
    ("pyproject", re.compile(r".*\.toml")),
    ("environment", re.compile(r".*\.ya?ml")),
    ("requirements", re.compile(r".*\.(?:txt|in|pip|reqs?)|requirements.*")),
)


def read(path: Path) -> Listing:
    """The file as a listing. Raises Unreadable with a reason for users."""
    name = path.name.lower()
    module = next((module for module, pattern in _FORMATS if pattern.fullmatch(name)), None)
    if module is None:
        raise Unreadable(
            f"cannot tell what '{path}' is; name a requirements.txt, pyproject.toml, uv.lock, poetry.lock or environment.yml"
        )
    reader: Callable[[Path], Listing] = import_module(f"{__name__}.{module}").read
    listing = reader(path)
    return replace(listing, entries=tuple(map(settled, listing.entries)))
