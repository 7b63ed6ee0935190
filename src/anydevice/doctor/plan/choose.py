"""The newest torch that will run on a machine, and one line for each newer choice that will not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from anydevice.doctor.plan.published import Release, releases, sizes
from anydevice.doctor.plan.target import Target, TargetError
from anydevice.doctor.plan.variant import family, is_variant, newness
from anydevice.doctor.plan.verdict import judge, judge_release, source_of

FAMILIES = ("cpu", "cuda", "rocm", "xpu", "mps")


@dataclass(frozen=True)
class Rejected:
    """A newer choice and why it is none. `variant` is None where the whole release will not do."""

    torch: str
    variant: str | None
    why: str


@dataclass(frozen=True)
class Choice:
    """A build that will run. `index` is None where PyPI serves it; `unknown` lists what could not be checked."""

    release: Release
    variant: str
    index: str | None
    megabytes: int | None
    unknown: tuple[str, ...] = ()

    @property
    def requirements(self) -> tuple[str, ...]:
        """`torch==2.14.1` and its companions."""
        return (f"torch=={self.release.version}", *self.release.companions())


@dataclass(frozen=True)
class Outcome:
    """The choice, or None, and what is newer than it."""

    choice: Choice | None
    rejected: tuple[Rejected, ...]


def choose(target: Target, wanted: str, among: tuple[Release, ...] | None = None) -> Outcome:
    """The newest of `among` (all releases by default) with a build of the wanted variant or family that will run."""
    rejected: list[Rejected] = []
    for release in releases() if among is None else among:
        why = judge_release(release, target)
        if why is not None:
            rejected.append(Rejected(str(release.version), None, why))
            continue
        for variant in _variants(release, wanted, target):
            verdict = judge(release, variant, target)
            if verdict.why_not is None:
                megabytes = sizes(release, target.platform, variant)
                found = Choice(release, variant, source_of(release, variant, target), megabytes, verdict.unknown)
                return Outcome(found, tuple(rejected))
            rejected.append(Rejected(str(release.version), variant, verdict.why_not))
    return Outcome(None, tuple(rejected))


def can_run(release: Release, wanted: str, target: Target) -> bool:
    """Whether some build of this release will do."""
    return choose(target, wanted, (release,)).choice is not None


def matching(wish: str | None) -> tuple[Release, ...]:
    """The releases that `2.14`, `2.14.1` or `>=2.9,<2.13` names, newest first."""
    if wish is None:
        return releases()
    try:
        asked = _specifier(wish)
    except (InvalidSpecifier, InvalidVersion):
        raise TargetError(
            f"'{wish[:40]}' names no version of torch; write it like 2.14, 2.14.1 or '>=2.9,<2.13'"
        ) from None
    found = tuple(release for release in releases() if asked.contains(release.version, prereleases=True))
    if not found:
        newest, oldest = releases()[0].version, releases()[-1].version
        raise TargetError(f"no torch '{wish[:40]}' is known; the list goes from {oldest} to {newest}")
    return found


def _specifier(wish: str) -> SpecifierSet:
    text = wish.strip()
    if text[:1].isdigit():
        version = Version(text.removesuffix(".*"))
        return SpecifierSet(f"=={version.public}.*" if len(version.release) < 3 else f"=={version.public}")
    return SpecifierSet(text)


def _variants(release: Release, wanted: str, target: Target) -> Iterator[str]:
    """The builds of a release to try, newest first. One that was asked for by name is always tried."""
    if wanted == "mps":
        wanted = "cpu"  # one wheel serves both
    if wanted in ("cpu", "xpu") or wanted not in FAMILIES:
        yield wanted
        return
    named = {*(release.listed or ()), *release.candidates, release.pypi_variant(target.platform) or wanted}
    known = [variant for variant in named if is_variant(variant) and family(variant) == wanted]
    yield from sorted(known, key=newness, reverse=True) or [wanted]
