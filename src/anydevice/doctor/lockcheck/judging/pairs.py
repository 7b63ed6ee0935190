"""torchvision and torchaudio that do not go with torch, by what their wheels declare."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from anydevice.doctor.lockcheck.builds import paired, release
from anydevice.doctor.lockcheck.listing import Entry, Listing
from anydevice.doctor.lockcheck.mending import again
from anydevice.doctor.lockcheck.problem import Intent, Problem, judge
from anydevice.doctor.plan.published import every_release, releases

_SOURCE = "torch_matrix.json: exact pins in the wheels' metadata; summary.stable_abi for the newest"
# From here on one companion takes many torches: companion -> (its first such version, the oldest torch that it takes).
_STABLE = {"torchvision": (Version("0.29.1"), Version("2.14.0")), "torchaudio": (Version("2.11.0"), Version("2.11.0"))}


@judge("pairs")
def pairs(listing: Listing, intent: Intent) -> Iterator[Problem]:
    """A companion for which no admitted torch will do."""
    told = set()
    for entries in [listing.entries] if listing.is_lock else list(listing.together()):
        torches = [entry for entry in entries if entry.name == "torch" and not entry.url]
        for companion in entries:
            if companion.name not in _STABLE or companion in told or companion.url:
                continue
            meets = [torch for torch in torches if _side_by_side(companion, torch)]
            if meets and not any(_fit(companion, torch) for torch in meets):
                told.add(companion)
                yield _problem(companion, meets[0], listing)


def _side_by_side(companion: Entry, torch: Entry) -> bool:
    needed = [version for name, version in companion.needs if name == "torch" and version is not None]
    return torch.version in needed if needed else True


def _fit(companion: Entry, torch: Entry) -> bool:
    """Whether some torch that is admitted takes a companion that is admitted; True where the facts do not tell."""
    if torch.public is not None and release(torch.public) is None:
        return True  # judged elsewhere, or newer than the facts
    if companion.public is not None and not _is_known(companion):
        return True
    first, oldest = _STABLE[companion.name]
    newest = every_release()[0].version
    if _reaches(companion, first) and any(torch.admits(r.version) for r in releases() if r.version >= oldest):
        return True
    if (
        torch.public is None
        and torch.admits(Version(f"{newest.major}.{newest.minor + 1}"))
        and companion.public is None
    ):
        return True
    return any(torch.admits(r.version) for r in paired(companion))


def _reaches(companion: Entry, first: Version) -> bool:
    if companion.public is not None:
        return companion.public >= first
    known = {first, *(Version(spec) for r in releases() if (spec := getattr(r, companion.name)) and spec[0].isdigit())}
    return any(version >= first and companion.admits(version) for version in known)


def _is_known(companion: Entry) -> bool:
    first, _ = _STABLE[companion.name]
    return bool(paired(companion)) or (companion.public is not None and companion.public >= first)


def _problem(companion: Entry, torch: Entry, listing: Listing) -> Problem:
    wanted = next((r for r in every_release() if torch.admits(r.version)), None)
    right = getattr(wanted, companion.name) if wanted is not None else None
    goes_with = next(iter(paired(companion)), None)
    mends = []
    if right is not None:
        mends.append(f"take {companion.name}{'' if right[0] in '<>' else '=='}{right}")
    if goes_with is not None:
        mends.append(f"take torch=={goes_with.version}")
    first, oldest = _STABLE[companion.name]
    if goes_with is None and _reaches(companion, first):
        mends.append(f"take torch>={oldest}")
    spelled = f"{companion.name} {companion.exact or companion.specifier}"
    message = f"{spelled} does not go with torch {torch.exact or torch.specifier} (line {torch.line})"
    return Problem(
        "impossible-pair", companion.path, companion.line, message, " or ".join(mends) + again(listing), _SOURCE
    )
