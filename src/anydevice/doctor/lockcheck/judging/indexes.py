"""Indexes that do not do what they look like: two at once, one beside PyPI that loses, none for a local version."""

from __future__ import annotations

from collections.abc import Iterator

from anydevice.doctor.lockcheck.builds import LINUX, newest_admitted
from anydevice.doctor.lockcheck.listing import FAMILY, Entry, Index, Listing
from anydevice.doctor.lockcheck.mending import from_index
from anydevice.doctor.lockcheck.problem import Intent, Problem, judge
from anydevice.doctor.plan.published import Release, releases

_PIP = "pip documentation, 'pip install --extra-index-url': all indexes are equal, the highest version wins"
_PYPI = "torch_matrix.json summary.local_version: file names on PyPI never carry a local version"
_BY_PIP = ("requirements", "conda")
# What PyTorch's indexes hold beside its own packages: the dependencies of torch.
_MIRRORED = {
    *FAMILY, "torchtext", "torchdata", "triton", "pytorch-triton", "numpy", "pillow", "filelock", "fsspec", "jinja2",
    "markupsafe", "mpmath", "networkx", "sympy", "typing-extensions", "setuptools", "requests", "tqdm", "certifi",
    "charset-normalizer", "idna", "urllib3", "packaging", "xformers", "torchao", "torchtune", "fbgemm-gpu",
}  # fmt: skip


@judge("two-indexes")
def two_indexes(listing: Listing, intent: Intent) -> Iterator[Problem]:
    """Indexes of several builds at once, where the pins do not say which one is meant."""
    if listing.kind not in _BY_PIP:
        return
    seen: dict[str, Index] = {}
    for index in listing.indexes:
        if index.variant is not None:
            seen.setdefault(index.variant, index)
    loose = [entry for entry in listing.entries if entry.name in FAMILY and entry.local is None and not entry.url]
    if len(seen) < 2 or not loose:
        return
    first, second = list(seen.values())[:2]
    message = f"indexes for {' and '.join(seen)} at once, and {loose[0].name} (line {loose[0].line}) does not say which"
    mend = f"keep one of them (the other is on line {first.line}), in a file of its own for each build"
    yield Problem("two-indexes", second.path, second.line, message, mend, _PIP)


@judge("extra-index")
def extra_index(listing: Listing, intent: Intent) -> Iterator[Problem]:
    """An index beside PyPI, where PyPI has a version that the index has not: PyPI's build wins, silently."""
    beside = [index for index in listing.indexes if index.extra and index.variant]
    if listing.kind not in _BY_PIP or len({index.variant for index in beside}) != 1:
        return
    if any(not index.extra and "pypi.org" not in index.url for index in listing.indexes):
        return
    index, variant = beside[0], beside[0].variant
    for entry in listing.family("torch"):
        if entry.local is not None or entry.url or entry.conda or not entry.on_linux or variant is None:
            continue
        from_pypi = newest_admitted(entry)
        on_index = _newest_on_index(entry, variant)
        if from_pypi is None or from_pypi is on_index:
            if entry.exact is None and from_pypi is not None:
                message = f"torch is not pinned: the day that PyPI is ahead of the {variant} index, PyPI's build wins"
                pin = f"pin it: 'torch=={from_pypi.version}+{variant}'"
                yield Problem("extra-index", entry.path, entry.line, message, pin, _PIP, "likely", note=True)
            continue
        served = from_pypi.pypi_variant(LINUX)
        if served == variant:
            continue
        known = (
            f"is not known to have {from_pypi.version}" if from_pypi.listed is None else f"has no {from_pypi.version}"
        )
        message = (
            f"the index for {variant} (line {index.line}) {known}, so that PyPI's {served} build of it is installed"
        )
        pin = f"pin 'torch=={on_index.version}+{variant}', or " if on_index is not None else ""
        sure = "certain" if from_pypi.listed is not None else "likely"
        mend = pin + from_index(listing, variant)
        yield Problem("extra-index", entry.path, entry.line, message, mend, _PIP, sure)


@judge("local-without-index")
def local_without_index(listing: Listing, intent: Intent) -> Iterator[Problem]:
    """`torch==2.14.1+cu126` with no index but PyPI, which has no such versions."""
    if listing.is_lock or listing.indexes:
        return
    for entry in listing.entries:
        if entry.name not in FAMILY or entry.local is None or entry.url or entry.index or entry.conda:
            continue
        message = f"PyPI has no '{entry.local}' builds of {entry.name}, and no other index is named here"
        variant = entry.tag
        mend = from_index(listing, variant) if variant else "name the index that has it"
        sure = "likely"  # an index may be named on the command line or in the settings of pip
        yield Problem("local-without-index", entry.path, entry.line, message, mend, _PYPI, sure)


@judge("only-index")
def only_index(listing: Listing, intent: Intent) -> Iterator[Problem]:
    """PyTorch's index as the only one, for packages that it does not hold."""
    own = next((index for index in listing.indexes if not index.extra and index.variant), None)
    if own is None or listing.kind not in _BY_PIP or any("pypi.org" in index.url for index in listing.indexes):
        return
    others = [e for e in listing.entries if not e.conda and not e.url and not e.constraint and e.name not in _MIRRORED]
    others = [entry for entry in others if not entry.name.startswith(("nvidia-", "triton", "pytorch-"))]
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        message = (
            f"{others[0].name}{more} would be looked up on {own.url} (line {own.line}) only, which holds torch's family"
        )
        mend = "keep torch, torchvision and torchaudio in a file of their own with that index"
        yield Problem("only-index", others[0].path, others[0].line, message, mend, _PIP, "likely", note=True)


def _newest_on_index(entry: Entry, variant: str) -> Release | None:
    return next((r for r in releases() if r.listed and variant in r.listed and entry.admits(r.version)), None)
