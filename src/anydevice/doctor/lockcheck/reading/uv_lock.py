"""uv.lock: packages with their registries, forks and edges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anydevice.doctor.lockcheck.listing import Entry, Listing, canonical
from anydevice.doctor.lockcheck.reading.text import Unreadable
from anydevice.doctor.lockcheck.reading.toml import Finder, items, load, strings, table, tables, text


def read(path: Path) -> Listing:
    """The lock as a listing."""
    data, lines = load(path)
    packages = items(data.get("package"))
    if "package" not in data and "version" not in data:
        raise Unreadable(f"cannot read '{path}': no uv.lock, it lists no package")
    places = tables(lines, "package")
    if len(places) != len(packages):  # a table inside a longer text, say
        places = [1] * len(packages)
    entries = [
        entry for place, package in zip(places, packages, strict=True) if (entry := _entry(package, path, place))
    ]
    python = text(data.get("requires-python"))
    line = Finder(lines).line("requires-python") if python else 1
    return Listing(path, "uv-lock", tuple(entries), python=python, python_line=line)


def _entry(package: dict[str, Any], path: Path, line: int) -> Entry | None:
    name, version, source = text(package.get("name")), text(package.get("version")), table(package, "source")
    if name is None or not {"registry", "url"} & source.keys():  # the project itself, folders, repositories
        return None
    forks = strings(package.get("resolution-markers"))
    wheels = [str(wheel.get("url") or wheel.get("filename") or "") for wheel in items(package.get("wheels"))]
    registry = text(source.get("registry"))
    return Entry(
        canonical(name),
        path,
        line,
        version=version,
        url=text(source.get("url")),
        index=None if registry is None or "pypi.org" in registry else registry,
        marker=" or ".join(f"({fork})" for fork in forks[:64]) or None,
        hashed=True,
        on_linux=not wheels or any("linux" in wheel or "none-any" in wheel for wheel in wheels),
        needs=tuple(
            (canonical(str(needed.get("name", ""))), text(needed.get("version")))
            for needed in items(package.get("dependencies"))
            if needed.get("name")
        ),
    )
