"""What a file asks to install, whatever its format: entries with their lines, indexes, and the Python it is for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.markers import InvalidMarker, Marker, UndefinedEnvironmentName
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from anydevice.doctor.plan.variant import is_variant

FAMILY = ("torch", "torchvision", "torchaudio")
_WHEEL = re.compile(r"/([A-Za-z0-9_.]+)-(\d[^-/]*)-[^/]+\.whl$")
_EXTRA = re.compile(r"""extra\s*==\s*(?:'([^']*)'|"([^"]*)")""")
# Where builds differ most, and where the wrong one costs gigabytes.
_LINUX = {
    "sys_platform": "linux",
    "platform_system": "Linux",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
}
_PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15")


@dataclass(frozen=True)
class Entry:
    """One thing to install. `group` is its extra or dependency group; `needs` are names with exact versions, if known.

    `index` is where the file says that it comes from; None means the default one.
    """

    name: str
    path: Path
    line: int
    specifier: str = ""
    version: str | None = None
    url: str | None = None
    index: str | None = None
    marker: str | None = None
    group: str = ""
    hashed: bool = False
    constraint: bool = False
    conda: bool = False
    build: str = ""
    on_linux: bool = True
    needs: tuple[tuple[str, str | None], ...] = ()

    @property
    def exact(self) -> Version | None:
        """The one version that will do, with its local part; None where there may be several."""
        if self.version is not None:
            return version_or_none(self.version)
        match = re.fullmatch(r"\s*={2,3}\s*([^\s,*]+)\s*", self.specifier)
        return version_or_none(match[1]) if match else None

    @property
    def public(self) -> Version | None:
        """The exact version without its local part."""
        return Version(self.exact.public) if self.exact is not None else None

    @property
    def local(self) -> str | None:
        """`cu126` of `2.14.1+cu126`."""
        return self.exact.local if self.exact is not None else None

    @property
    def tag(self) -> str | None:
        """The build that the entry itself names, by its local version, its URL or its index."""
        if self.local is not None and is_variant(self.local):
            return self.local
        return index_variant(self.url) or index_variant(self.index)

    def admits(self, version: Version | str) -> bool:
        """Whether this version would do, local parts aside."""
        wanted = version if isinstance(version, Version) else Version(version)
        if self.public is not None:
            return self.public == wanted
        try:
            return SpecifierSet(re.sub(r"\+[\w.]+", "", self.specifier)).contains(wanted, prereleases=True)
        except InvalidSpecifier:
            return True


@dataclass(frozen=True)
class Index:
    """An index that a file names. `extra` means beside the default one, as `--extra-index-url` does."""

    url: str
    extra: bool
    path: Path
    line: int

    @property
    def variant(self) -> str | None:
        """The build that it holds, where its address tells."""
        return index_variant(self.url)


@dataclass(frozen=True)
class Listing:
    """One file, with what it includes. `kind` is requirements, pyproject, uv-lock, poetry-lock or conda."""

    path: Path
    kind: str
    entries: tuple[Entry, ...] = ()
    indexes: tuple[Index, ...] = ()
    python: str | None = None
    python_line: int = 1
    errors: tuple[str, ...] = ()
    bad_lines: tuple[tuple[Path, int, str], ...] = ()
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def is_lock(self) -> bool:
        """Whether a tool has written it, so that it is mended by running that tool again."""
        return self.kind.endswith("-lock")

    def together(self) -> Iterator[tuple[Entry, ...]]:
        """The entries that meet in one environment: those of no group, with those of each group in turn."""
        groups = list(dict.fromkeys(entry.group for entry in self.entries if entry.group))
        for group in groups or [""]:
            yield tuple(entry for entry in self.entries if entry.group in ("", group))

    def family(self, name: str) -> tuple[Entry, ...]:
        """The entries of one package."""
        return tuple(entry for entry in self.entries if entry.name == name)


def canonical(name: str) -> str:
    """The name as all tools compare it."""
    return str(canonicalize_name(name))


def version_or_none(text: str) -> Version | None:
    """A version, where it is one."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


def index_variant(url: str | None) -> str | None:
    """The build that an index or a wheel's address names: `.../whl/cu126`, `.../torch-2.14.1%2Bcpu-cp312...whl`."""
    if not url:
        return None
    try:
        path = unquote(urlsplit(url).path)
    except ValueError:
        return None
    wheel = _WHEEL.search(path)
    if wheel is not None and "+" in wheel[2]:
        local = wheel[2].partition("+")[2]
        if is_variant(local):
            return local
    return next((part for part in reversed(path.strip("/").split("/")) if is_variant(part)), None)


def wheel_version(url: str) -> tuple[str, str] | None:
    """Name and version of the wheel at an address."""
    match = _WHEEL.search(unquote(url).partition("#")[0])
    return (canonical(match[1]), match[2]) if match else None


def holds_on_linux(marker: str | None) -> bool:
    """Whether a marker can hold on Linux, for any Python and extra."""
    if not marker:
        return True
    extras = ["", *(first or second for first, second in _EXTRA.findall(marker))][:16]
    try:
        parsed = Marker(marker)
        return any(
            parsed.evaluate({**_LINUX, "python_version": v, "python_full_version": f"{v}.0", "extra": extra})
            for v in _PYTHONS
            for extra in extras
        )
    except (InvalidMarker, UndefinedEnvironmentName, InvalidVersion, RecursionError):
        return True


def settled(entry: Entry) -> Entry:
    """The entry with what its marker says worked in."""
    return replace(entry, on_linux=entry.on_linux and holds_on_linux(entry.marker))
