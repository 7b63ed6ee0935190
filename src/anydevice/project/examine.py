"""One document in, its findings out: rules, suppression comments and nothing else. Runs in worker processes too."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from packaging.version import Version

from anydevice.finding import Finding
from anydevice.project.suppression import Suppressed, suppress
from anydevice.rules.analysis import analyse
from anydevice.rules.facts import NO_FACTS, Facts
from anydevice.rules.registry import select
from anydevice.rules.rule import Rule
from anydevice.rules.target import DEFAULT, Target
from anydevice.source.document import Document, TooLargeError, UnreadableError, read


@dataclass(frozen=True)
class Circumstances:
    """All that decides, beside its text, what is found in a file. Small, so that it can be sent to workers."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    torch: str = str(DEFAULT)
    facts: Facts = NO_FACTS

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules in force."""
        return _rules(self.select, self.ignore)

    @property
    def target(self) -> Target:
        """The oldest torch to support."""
        return Target(Version(self.torch))


@dataclass(frozen=True)
class Examined:
    """What came of one file: findings, and the reason why it was not read, or not by every rule."""

    path: Path
    findings: tuple[Finding, ...] = ()
    silenced: int = 0
    notices: tuple[str, ...] = ()
    error: str | None = None


@lru_cache(maxsize=4)
def _rules(chosen: tuple[str, ...], ignored: tuple[str, ...]) -> tuple[Rule, ...]:
    return select(chosen, ignored)


def examine(document: Document, circumstances: Circumstances, failures: list[str] | None = None) -> Suppressed:
    """The findings of one document; for `failures` see `analyse`."""
    found = analyse(document, circumstances.rules, circumstances.target, circumstances.facts, failures)
    return suppress(document, found)


def examine_file(path: Path, name: str, circumstances: Circumstances) -> Examined:
    """Read and examine one file; a file that cannot be read becomes an error or, when it is only large, a notice."""
    failures: list[str] = []
    try:
        document = read(path, name)
        kept = examine(document, circumstances, failures)
    except TooLargeError as error:
        return Examined(path, notices=(str(error),))
    except UnreadableError as error:
        return Examined(path, error=str(error))
    except RecursionError:
        return Examined(path, error=f"cannot examine '{name}': nested too deeply")
    return Examined(path, kept.findings, kept.silenced, kept.notices, "\n".join(failures) or None)


def examine_files(files: list[tuple[Path, str]], circumstances: Circumstances) -> list[Examined]:
    """A worker's share."""
    return [examine_file(path, name, circumstances) for path, name in files]
