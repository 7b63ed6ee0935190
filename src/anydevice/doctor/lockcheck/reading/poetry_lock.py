"""poetry.lock: packages with the source that each came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anydevice.doctor.lockcheck.listing import Entry, Listing, canonical
from anydevice.doctor.lockcheck.reading.pyproject import poetry_specifier
from anydevice.doctor.lockcheck.reading.text import Unreadable
from anydevice.doctor.lockcheck.reading.toml import Finder, items, load, table, tables, text


def read(path: Path) -> Listing:
    """The lock as a listing."""
    data, lines = load(path)
    packages = items(data.get("package"))
    if "package" not in data and "metadata" not in data:
        raise Unreadable(f"cannot read '{path}': no poetry.lock, it lists no package")
    places = tables(lines, "package")
    if len(places) != len(packages):
        places = [1] * len(packages)
    entries = [
        entry for place, package in zip(places, packages, strict=True) if (entry := _entry(package, path, place))
    ]
    python = text(table(data, "metadata").get("python-versions"))
    line = Finder(lines).line("python-versions =") if python else 1
    specifier = poetry_specifier(python) if python else None
    return Listing(path, "poetry-lock", tuple(entries), python=specifier, python_line=line)


def _entry(package: dict[str, Any], path: Path, line: int) -> Entry | None:
    name, version, source = text(package.get("name")), text(package.get("version")), table(package, "source")
    kind, address = text(source.get("type")), text(source.get("url"))
    if name is None or version is None or kind in ("git", "directory", "file"):
        return None
    wheels = [str(file.get("file", "")) for file in items(package.get("files"))]
    marker = package.get("markers")
    if isinstance(marker, dict):  # by group
        marker = " or ".join(f"({value})" for value in marker.values() if isinstance(value, str))
    return Entry(
        canonical(name),
        path,
        line,
        version=version,
        url=address if kind == "url" else None,
        index=address if kind == "legacy" else None,
        marker=text(marker),
        hashed=True,
        on_linux=not wheels or any("linux" in wheel or "none-any" in wheel or ".tar" in wheel for wheel in wheels),
        needs=tuple((canonical(needed), None) for needed in table(package, "dependencies")),
    )
