"""Versions and builds that do not exist."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from anydevice.doctor.lockcheck.builds import LINUX, build_of, release
from anydevice.doctor.lockcheck.listing import Entry, Listing
from anydevice.doctor.lockcheck.mending import again
from anydevice.doctor.lockcheck.problem import Intent, Problem, judge
from anydevice.doctor.plan.published import Release, collected, every_release, releases
from anydevice.doctor.plan.variant import family, newness

_SOURCE = "torch_matrix.json: PyPI's index of torch, and the pages that list PyTorch's own indexes"


@judge("versions")
def versions(listing: Listing, intent: Intent) -> Iterator[Problem]:
    """A torch that was never released, or not in this build."""
    for entry in listing.family("torch"):
        exact = entry.public
        if exact is None:
            yield from _range(entry)
            continue
        if exact.is_prerelease or exact.is_postrelease or exact < releases()[-1].version:
            continue
        found = release(exact)
        if found is None:
            yield _no_release(entry, exact, listing)
        elif not entry.conda:
            yield from _no_build(entry, found, listing)


def _range(entry: Entry) -> Iterator[Problem]:
    ceiling = releases()[0].version
    if entry.specifier and not any(entry.admits(r.version) for r in every_release()):
        if entry.admits(Version(f"{ceiling.major}.{ceiling.minor + 1}")) or entry.admits(
            Version(f"{ceiling.major + 1}")
        ):
            return  # newer than the facts
        message = f"no release of torch satisfies '{entry.specifier}'"
        mend = f"the releases go from {releases()[-1].version} to {ceiling}"
        yield Problem("no-such-torch", entry.path, entry.line, message, mend, _SOURCE, "likely")


def _no_release(entry: Entry, exact: Version, listing: Listing) -> Problem:
    newest = releases()[0].version
    if exact > newest:
        message = f"torch {exact} is newer than the facts, which end with {newest} ({collected()})"
        return Problem(
            "unknown-torch",
            entry.path,
            entry.line,
            message,
            "nothing, if it exists by now",
            _SOURCE,
            "unknown",
            note=True,
        )
    near = sorted(releases(), key=lambda r: _distance(r.version, exact))[:2]
    named = " and ".join(str(r.version) for r in sorted(near, key=lambda r: r.version))
    message = f"there is no torch {exact}"
    mend = f"the nearest releases are {named}{again(listing)}"
    return Problem("no-such-torch", entry.path, entry.line, message, mend, _SOURCE)


def _distance(one: Version, other: Version) -> tuple[int, ...]:
    return tuple(abs(a - b) for a, b in zip((*one.release, 0, 0), (*other.release, 0, 0), strict=False))[:3]


def _no_build(entry: Entry, found: Release, listing: Listing) -> Iterator[Problem]:
    build = entry.tag or build_of(entry, listing)
    if build in (None, "cuda") or build is None or build == found.pypi_variant(LINUX) or not entry.on_linux:
        return
    if found.listed is None or build in found.candidates:
        message = f"whether torch {found.version} was published for {build} is not known"
        mend = f"look at the index before you rely on it; the facts are of {collected()}"
        yield Problem("unknown-build", entry.path, entry.line, message, mend, _SOURCE, "unknown", note=True)
    elif build not in found.listed:
        alike = sorted((v for v in found.listed if family(v) == family(build)), key=newness)
        message = f"torch {found.version} was not published for {build}"
        others = ", ".join(alike or sorted(found.listed))
        mend = f"take one of {others}, or another torch: {_with(build)}{again(listing)}"
        yield Problem("no-such-build", entry.path, entry.line, message, mend, _SOURCE, "likely")


def _with(build: str) -> str:
    having = [str(r.version) for r in releases() if r.listed and build in r.listed]
    return f"{build} was published for {having[-1]} to {having[0]}" if having else f"none was published for {build}"
