"""NVIDIA's gigabytes in a file that is meant for machines without a GPU, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anydevice.doctor.lockcheck.builds import brings_cuda, build_of, differ
from anydevice.doctor.lockcheck.listing import FAMILY, Entry, Listing
from anydevice.doctor.lockcheck.mending import again, from_index
from anydevice.doctor.lockcheck.problem import Intent, Problem, judge
from anydevice.doctor.plan.variant import family

_SOURCE = "torch_matrix.json: PyPI's Linux wheels are CUDA builds (wheels and metadata read 2026-11-30)"


@judge("cpu-and-cuda")
def cpu_and_cuda(listing: Listing, intent: Intent) -> Iterator[Problem]:
    """A build that is not the one that the file is for."""
    builds = {entry: build_of(entry, listing) for entry in listing.entries if entry.name in FAMILY}
    of_torch = [build for entry, build in builds.items() if entry.name == "torch" and entry.on_linux]
    meant, why = intent.variant, "meant for"
    if meant is None and of_torch and all(build == "cpu" for build in of_torch):
        meant, why = "cpu", "pinned to torch for"
    if meant is None:
        yield from _only_a_note(listing, builds)
        return
    # A lock holds all variants of a project; what it must not hold is told by its packages, not by one of them.
    one_of_many = listing.is_lock and any(build is not None and not differ(build, meant) for build in of_torch)
    if family(meant) == "cpu":
        for entry in listing.entries:
            if brings_cuda(entry) and entry.on_linux and not entry.constraint:
                message = f"{entry.name} is one of NVIDIA's libraries, and this file is {why} the CPU"
                mend = from_index(listing, "cpu") if entry.conda is False else "remove it"
                yield Problem("cuda-in-cpu-file", entry.path, entry.line, message, mend, _SOURCE)
    for entry, build in builds.items():
        if build is None or not differ(build, meant) or (one_of_many and family(meant) != "cpu"):
            continue
        where = f" from {entry.index or 'PyPI'}" if entry.local is None and not entry.conda else ""
        spelled = f"{entry.name} {entry.exact}" if entry.exact is not None else entry.name
        message = f"{spelled}{where} is the {build} build on Linux, and this file is {why} {meant}"
        code = "cuda-in-cpu-file" if family(meant) == "cpu" else "wrong-build"
        mend = from_index(listing, meant) if meant != "cuda" else f"take {entry.name} from the index of a CUDA build"
        sure = "certain" if entry.tag or entry.exact else "likely"
        yield Problem(code, entry.path, entry.line, message, mend + again(listing) * (meant == "cuda"), _SOURCE, sure)


def _only_a_note(listing: Listing, builds: Mapping[Entry, str | None]) -> Iterator[Problem]:
    for entry, build in builds.items():
        if entry.name != "torch" or entry.tag or entry.conda or build is None or family(build) != "cuda":
            continue
        message = f"on Linux this torch is PyPI's {build} build, which brings NVIDIA's libraries (several GB)"
        mend = f"for machines without a GPU: {from_index(listing, 'cpu')}"
        yield Problem("cuda-by-default", entry.path, entry.line, message, mend, _SOURCE, note=True)
