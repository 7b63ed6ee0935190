"""Which of the errors in a log is the cause, and why it is thought to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from anydevice.doctor.explain.finding import Found, Weight

_LATER = 400  # lines of other output between two errors, after which the program had got over the first


@dataclass(frozen=True)
class Ranked:
    """An error and the reason for its rank."""

    found: Found
    reason: str


def rank(found: Sequence[Found]) -> list[Ranked]:
    """The likeliest cause first.

    A consequence or a wrapper comes after what it gives way to, a warning after an error, an error that the program
    outlived after those that ended it; of what is left, Python prints the cause of a chain first, and of several ranks
    the first to fail makes the others fail.
    """
    present = {one.signature.id: one for one in found}
    ended = _last_episode(found)
    keyed = []
    for one in found:
        above = [other for other in one.signature.gives_way_to if other in present]
        keyed.append(((bool(above), one.weight == Weight.WARNED, one.first.line < ended), one, above))
    keyed.sort(key=lambda entry: (entry[0], entry[1].first.line, entry[1].first.offset))
    if keyed and keyed[0][0][0]:  # each gives way to another: the first that stands in the log
        keyed.sort(key=lambda entry: (entry[1].first.line, entry[1].first.offset))
    alone = len(keyed) == 1
    return [
        Ranked(one, _reason(key, one, above, first=not index, alone=alone))
        for index, (key, one, above) in enumerate(keyed)
    ]


def _last_episode(found: Sequence[Found]) -> int:
    """The line from which on errors follow each other closely until the last."""
    lines = sorted({place for one in found if one.weight != Weight.WARNED for place in (one.first.line, one.last_line)})
    for earlier, later in reversed(list(pairwise(lines))):
        if later - earlier > _LATER:
            return later
    return 0


def _reason(key: tuple[bool, bool, bool], one: Found, above: list[str], *, first: bool, alone: bool) -> str:
    consequence, warning, outlived = key
    if alone:
        return "the only known message" + (", and only a warning" if warning else "")
    if consequence and not first:
        return f"a consequence or another wording of {', '.join(sorted(above))}"
    if warning:
        return "a warning" + (", but no known error stands in the log" if first else "; the program went on")
    if outlived:
        return "an earlier error, which the program outlived"
    return "the first known error of those that ended the program" if first else "after the first error"
