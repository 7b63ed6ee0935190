"""Pins that contradict each other, lines that no installer can read, and pins without hashes beside hashed ones."""

from __future__ import annotations

from collections.abc import Iterator

from anydevice.doctor.lockcheck.listing import FAMILY, Entry, Listing
from anydevice.doctor.lockcheck.problem import Intent, Problem, judge

_PEP = "PEP 440 and PEP 508"
_HASHES = "pip documentation, 'Secure installs': hash-checking mode is all-or-nothing"


@judge("contradictions")
def contradictions(listing: Listing, intent: Intent) -> Iterator[Problem]:
    """Two pins of one package of which no version satisfies both."""
    if listing.is_lock:
        return
    told = set()
    for entries in listing.together():
        for name in FAMILY:
            pins = [e for e in entries if e.name == name and e.on_linux and (e.exact is not None or e.specifier)]
            for later, first in ((pin, pins[0]) for pin in pins[1:]):
                if first.conda == later.conda and _contradict(first, later) and later not in told:
                    told.add(later)
                    message = f"{_text(later)} contradicts {_text(first)} ({first.path.name}, line {first.line})"
                    yield Problem("contradiction", later.path, later.line, message, "keep one of the two", _PEP)


@judge("unreadable-lines")
def unreadable_lines(listing: Listing, intent: Intent) -> Iterator[Problem]:
    """Lines that are no requirement."""
    for path, line, text in listing.bad_lines:
        message = f"'{text[:80]}' is no requirement"
        yield Problem("unreadable-line", path, line, message, "write it like 'torch==2.14.1'", _PEP, "likely")


@judge("hashes")
def hashes(listing: Listing, intent: Intent) -> Iterator[Problem]:
    """One hash makes pip ask for all."""
    if listing.kind != "requirements":
        return
    pins = [entry for entry in listing.entries if not entry.constraint]
    bare = [entry for entry in pins if not entry.hashed]
    if bare and any(entry.hashed for entry in pins):
        more = f" and {len(bare) - 1} more" if len(bare) > 1 else ""
        message = f"{bare[0].name}{more} has no hash, others have: pip then refuses the whole file"
        mend = "make the file anew with 'pip-compile --generate-hashes' or 'uv pip compile --generate-hashes'"
        yield Problem("unhashed", bare[0].path, bare[0].line, message, mend, _HASHES)


def _contradict(one: Entry, other: Entry) -> bool:
    if one.exact is not None and other.exact is not None:
        both_local = one.local is not None and other.local is not None and one.local != other.local
        return one.public != other.public or both_local
    exact, loose = (one, other) if one.exact is not None else (other, one)
    return exact.public is not None and not loose.admits(exact.public)


def _text(entry: Entry) -> str:
    return f"{entry.name}=={entry.exact}" if entry.exact is not None else f"{entry.name}{entry.specifier}"
