"""torch, torchvision and torchaudio of different builds: they install together and break at import or at first use."""

from __future__ import annotations

import re
from collections.abc import Iterator

from anydevice.doctor.lockcheck.builds import build_of, differ
from anydevice.doctor.lockcheck.listing import Entry, Listing
from anydevice.doctor.lockcheck.mending import from_index
from anydevice.doctor.lockcheck.problem import Intent, Problem, judge
from anydevice.doctor.plan.variant import cuda_version, is_variant

_SOURCE = "doctor_peers.md fact 1, reproduced: torch 2.13.0+cpu with PyPI's torchvision 0.28.0 lacks torchvision::nms"
_MAJOR = re.compile(r"nvidia-.*-cu(1\d)")


@judge("mixed-builds")
def mixed_builds(listing: Listing, intent: Intent) -> Iterator[Problem]:
    """A companion of another build than its torch."""
    told = set()
    for entries in [listing.entries] if listing.is_lock else list(listing.together()):
        torches = [entry for entry in entries if entry.name == "torch" and entry.on_linux]
        for entry in entries:
            if entry.name not in ("torchvision", "torchaudio") or entry in told:
                continue
            build = build_of(entry, listing)
            meets = _torches_of(entry, torches)
            builds = [(torch, other) for torch in meets if (other := build_of(torch, listing)) is not None]
            # With several torches, as in a lock of several extras, one that fits is the one that it is for.
            if build is None or not builds or any(not differ(build, other) for _, other in builds):
                continue
            told.add(entry)
            torch, other = builds[0]
            message = f"{_spelled(entry)} is a {build} build, {_spelled(torch)} (line {torch.line}) a {other} build"
            wanted = other if is_variant(other) else "cpu"
            mend = from_index(listing, wanted)
            yield Problem("mixed-builds", entry.path, entry.line, message, mend, _SOURCE, _sure(entry, torch))


@judge("mixed-cuda-majors")
def mixed_cuda_majors(listing: Listing, intent: Intent) -> Iterator[Problem]:
    """NVIDIA's libraries of one CUDA major beside a torch of another."""
    builds = {build_of(entry, listing) for entry in listing.family("torch") if entry.on_linux}
    only = cuda_version(next(iter(builds)) or "") if len(builds) == 1 else None
    if only is None:
        return
    for entry in listing.entries:
        match = _MAJOR.fullmatch(entry.name)
        if match is not None and int(match[1]) != only[0] and not entry.constraint:
            message = f"{entry.name} is for CUDA {match[1]}, torch here is built for CUDA {only[0]}"
            mend = "remove it: torch brings the libraries that it needs"
            yield Problem("mixed-cuda-majors", entry.path, entry.line, message, mend, _SOURCE, "likely")


def _torches_of(entry: Entry, torches: list[Entry]) -> list[Entry]:
    """Those that the entry says it needs, or all."""
    needed = {version for name, version in entry.needs if name == "torch" and version is not None}
    return [torch for torch in torches if torch.version in needed] if needed else torches


def _sure(entry: Entry, torch: Entry) -> str:
    return "certain" if entry.tag and torch.tag else "likely"


def _spelled(entry: Entry) -> str:
    return f"{entry.name} {entry.exact}" if entry.exact is not None else entry.name
