"""Pins for which there is no wheel for the Python that the file is for."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from anydevice.doctor.lockcheck.builds import LINUX, release
from anydevice.doctor.lockcheck.listing import Listing
from anydevice.doctor.lockcheck.problem import Intent, Problem, judge
from anydevice.doctor.plan.published import Release, releases
from anydevice.doctor.plan.target import python_version

_SOURCE = "torch_matrix.json: the Pythons of the wheels on PyPI, and Requires-Python"


@judge("pythons")
def pythons(listing: Listing, intent: Intent) -> Iterator[Problem]:
    """A torch without a wheel for any, or for the lowest, Python of the file."""
    for entry in listing.family("torch"):
        found = release(entry.public) if entry.public is not None else None
        wheel = found.wheels.get(LINUX) if found is not None else None
        if found is None or wheel is None or entry.conda:
            continue
        named = ", ".join(wheel.pythons)
        if intent.python is not None:
            if python_version(intent.python) not in wheel.pythons:
                message = f"torch {found.version} has no wheel for Python {intent.python}; it has {named}"
                mend = f"take Python {wheel.pythons[-1]}{_other(python_version(intent.python))}"
                yield Problem("no-wheel-for-python", entry.path, entry.line, message, mend, _SOURCE)
            continue
        wish = _specifier(listing.python)
        if wish is None:
            continue
        if not any(wish.contains(f"{python.removesuffix('t')}.99") for python in wheel.pythons):
            message = f"torch {found.version} has no wheel for Python {listing.python} (line {listing.python_line})"
            mend = f"it has {named}; take another Python{_other_for(wish)}"
            yield Problem("no-wheel-for-python", entry.path, entry.line, message, mend, _SOURCE)
        elif listing.kind == "pyproject" and found.requires_python is not None:
            yield from _too_low(listing, entry.line, found, wish)


def _too_low(listing: Listing, line: int, found: Release, wish: SpecifierSet) -> Iterator[Problem]:
    """A resolver for all Pythons of a project fails on the lowest one, though an installer would not."""
    needed = found.requires_python
    low = [minor for minor in range(6, 30) if wish.contains(f"3.{minor}.0") or wish.contains(f"3.{minor}.99")]
    if low and needed is not None and not needed.contains(f"3.{low[0]}.99"):
        message = f"the project admits Python 3.{low[0]}, torch {found.version} (line {line}) needs {needed}"
        mend = f'write requires-python = "{needed}", or limit the pin with a marker'
        yield Problem("python-too-low", listing.path, listing.python_line, message, mend, _SOURCE)


def _specifier(text: str | None) -> SpecifierSet | None:
    try:
        return SpecifierSet(text) if text else None
    except InvalidSpecifier:
        return None


def _other(python: str) -> str:
    found = next((r for r in releases() if LINUX in r.wheels and python in r.wheels[LINUX].pythons), None)
    return f", or torch {found.version}, the newest for {python}" if found is not None else ""


def _other_for(wish: SpecifierSet) -> str:
    for candidate in releases():
        wheel = candidate.wheels.get(LINUX)
        if wheel is not None and any(wish.contains(f"{python.removesuffix('t')}.99") for python in wheel.pythons):
            return f", or torch {candidate.version}"
    return ""
