"""Known error messages: how each is recognised, its cause, its mend, and the popular mend that does not help."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property

from anydevice.doctor.facts.files import read


@dataclass(frozen=True)
class Pattern:
    """One wording of a message.

    `words` are literals without spaces, the rarest first; where one is absent the regex cannot match. The regex is for
    text whose lines are joined by single spaces.
    """

    words: tuple[str, ...]
    text: str

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """Compiled when it is first needed: most logs hold the words of few patterns."""
        return re.compile(self.text)


@dataclass(frozen=True)
class Signature:
    """One known error."""

    id: str
    category: str
    patterns: tuple[Pattern, ...]
    sample: str
    cause: str
    mend: str
    commands: tuple[str, ...]  # {names} are filled in with what the log and the machine say
    avoid: str  # the popular mend that does not help, or harms
    gives_way_to: frozenset[str]  # errors of which this one is a consequence, a wrapper or a wider form
    sources: tuple[str, ...]
    reproduced: str | None
    note: str | None


@cache
def signatures() -> tuple[Signature, ...]:
    """All of them, in the order of the data file."""
    return tuple(
        Signature(
            id=row["id"],
            category=row["category"],
            patterns=tuple(Pattern(tuple(one["words"]), one["regex"]) for one in row["patterns"]),
            sample=row["sample"],
            cause=row["cause"],
            mend=row["mend"],
            commands=tuple(row["commands"]),
            avoid=row["avoid"],
            gives_way_to=frozenset(row["gives_way_to"]),
            sources=tuple(row["sources"]),
            reproduced=row["reproduced"],
            note=row["note"],
        )
        for row in read("signatures")["rows"]
    )
