"""conda's own traps: torch twice, both kinds of builds at once, a channel that ended."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from anydevice.doctor.lockcheck.listing import Listing
from anydevice.doctor.lockcheck.problem import Intent, Problem, judge

_SOURCE = "doctor_peers.md section 3: the pytorch channel ended with 2.5 (previous-versions page)"
_LAST = Version("2.5.1")


@judge("conda")
def conda(listing: Listing, intent: Intent) -> Iterator[Problem]:
    """What is wrong in an environment.yml only."""
    if listing.kind != "conda":
        return
    by_conda = {entry.name: entry for entry in listing.entries if entry.conda}
    by_pip = {entry.name: entry for entry in listing.entries if not entry.conda}
    for name in ("torch", "torchvision", "torchaudio"):
        if name in by_conda and name in by_pip:
            entry, other = by_pip[name], by_conda[name]
            message = f"{name} comes from pip here and from conda on line {other.line}: the second overwrites the first"
            yield Problem("torch-twice", entry.path, entry.line, message, "keep one of the two", _SOURCE)
    if (
        "torch" in by_pip
        and "torch" not in by_conda
        and (other := by_conda.get("torchvision") or by_conda.get("torchaudio"))
    ):
        message = f"{other.name} from conda brings conda's torch beside the one from pip (line {by_pip['torch'].line})"
        yield Problem(
            "torch-twice", other.path, other.line, message, f"take {other.name} from pip, too", _SOURCE, "likely"
        )
    if "cpuonly" in by_conda and (chosen := by_conda.get("pytorch-cuda") or by_conda.get("cudatoolkit")):
        message = f"cpuonly (line {by_conda['cpuonly'].line}) and {chosen.name} exclude each other"
        yield Problem("mixed-builds", chosen.path, chosen.line, message, "keep one of the two", _SOURCE)
    torch = by_conda.get("torch")
    channels = listing.notes.get("channels", "").split()
    if torch is not None and torch.public is not None and torch.public > _LAST and "conda-forge" not in channels:
        if "pytorch" in channels:
            message = f"the pytorch channel ended with {_LAST}, it has no {torch.public}"
            mend = "take it from conda-forge, or torch from pip; 'anydevice env plan' writes the file"
            yield Problem("no-such-torch", torch.path, torch.line, message, mend, _SOURCE)
