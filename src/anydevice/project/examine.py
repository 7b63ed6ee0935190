"""One document in, its findings out: rules, suppression comments and nothing else. Runs in worker processes too."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

from packaging.version import Version

from anydevice.finding import Finding
from anydevice.project.suppression import Suppressed, suppress
from anydevice.rules.analysis import analyse
from anydevice.rules.facts import NO_FACTS, Facts
from anydevice.rules.registry import select
from anydevice.rules.rule import Rule
from anydevice.rules.target import DEFAULT, Target
from anydevice.source.discover import kind_of
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

    @cached_property
    def key(self) -> str:
        """Equal for equal circumstances, in every process: sets have no order of their own."""
        values = {**asdict(self), **asdict(self.facts)}
        del values["facts"]
        return repr([(name, sorted(v) if isinstance(v, frozenset) else v) for name, v in sorted(values.items())])


@dataclass(frozen=True)
class Examined:
    """What came of one file. Errors are things that were asked for and could not be done; notices are not.

    `is_read` is False where the file could not be read at all.
    """

    path: Path
    findings: tuple[Finding, ...] = ()
    silenced: int = 0
    notices: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    is_read: bool = True


@lru_cache(maxsize=4)
def _rules(chosen: tuple[str, ...], ignored: tuple[str, ...]) -> tuple[Rule, ...]:
    return select(chosen, ignored)


def examine(document: Document, circumstances: Circumstances, failures: list[str] | None = None) -> Suppressed:
    """The findings of one document; for `failures` see `analyse`."""
    found = analyse(document, circumstances.rules, circumstances.target, circumstances.facts, failures)
    # The whole line with its indentation, for columns count from its beginning.
    return suppress(document, [replace(f, source=document.line_text(f.span).rstrip()) for f in found])


def examine_file(path: Path, name: str, circumstances: Circumstances, *, named: bool = False) -> Examined:
    """Read and examine one file. `named`: the user has asked for this very file, rather than for a folder above it."""
    failures: list[str] = []
    try:
        document = read(path, name)
    except UnreadableError as error:
        if named or not _is_data(path, error):
            return Examined(path, errors=(str(error),), is_read=False)
        return Examined(path, notices=(str(error),), is_read=False)
    try:
        kept = examine(document, circumstances, failures)
    except RecursionError:
        return Examined(path, errors=(f"cannot examine '{name}': nested too deeply",), is_read=False)
    except Exception as error:  # a bug of ours, which must not keep the other files from being examined
        reason = f"{type(error).__name__}: {error}"
        return Examined(path, errors=(f"cannot examine '{name}' ({reason}); please report this",), is_read=False)
    return Examined(path, kept.findings, kept.silenced, kept.notices, tuple(failures))


def examine_files(files: list[tuple[Path, str]], circumstances: Circumstances) -> list[Examined]:
    """A worker's share of the files of a walk."""
    return [examine_file(path, name, circumstances) for path, name in files]


def _is_data(path: Path, error: UnreadableError) -> bool:
    """Whether a file that cannot be read is data rather than code: too large, or a config file that is no text."""
    if isinstance(error, TooLargeError):
        return True
    return kind_of(path.name, path.parent.name) == "config" and not isinstance(error.__cause__, OSError)
