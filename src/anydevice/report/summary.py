"""What a run came to: the findings, and the counts by which a person decides on a port."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from anydevice.finding import Finding, Safety

# Rules whose findings no mechanical rewrite can mend: somebody has to write code that is not there.
IMPOSSIBLE = frozenset({"cuda-only-kernel", "cuda-only-import", "cuda-extension", "traced-device"})


@dataclass(frozen=True)
class Counts:
    """Findings by what they ask for: nothing (`automatic`), `--unsafe`, a decision, or new code (`impossible`)."""

    automatic: int = 0
    unsafe: int = 0
    decision: int = 0
    impossible: int = 0

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> Counts:
        """Count `findings`."""
        counter = Counter(_kind(finding) for finding in findings)
        return cls(**counter)

    @property
    def total(self) -> int:
        """All of them."""
        return self.automatic + self.unsafe + self.decision + self.impossible

    def __str__(self) -> str:
        parts = (
            (self.automatic, "automatic"),
            (self.unsafe, "with --unsafe"),
            (self.decision, "for a person to decide"),
            (self.impossible, "without a mechanical rewrite"),
        )
        return ", ".join(f"{number} {what}" for number, what in parts if number)


def _kind(finding: Finding) -> str:
    if finding.fixable:
        return "automatic" if finding.safety is Safety.SAFE else "unsafe"
    return "impossible" if finding.name in IMPOSSIBLE else "decision"


@dataclass(frozen=True)
class Report:
    """All that a scan or a fix has to say.

    `files` counts those that were examined. `errors` say, one line each, what was asked for and could not be done,
    `notices` what else is worth knowing. `fixed` are findings whose edits were applied,
    `dropped` fixes that were refused, with the reason. `findings` are those found, after a fix those left.
    """

    findings: tuple[Finding, ...]
    files: int
    notices: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    suppressed: int = 0
    fixed: tuple[Finding, ...] = ()
    dropped: tuple[tuple[Finding, str], ...] = ()

    @cached_property
    def counts(self) -> Counts:
        """The counts of all findings."""
        return Counts.of(self.findings)

    @cached_property
    def by_file(self) -> dict[str, tuple[Finding, ...]]:
        """The findings of each file, files in the order of their first finding."""
        files: dict[str, list[Finding]] = {}
        for finding in self.findings:
            files.setdefault(finding.path, []).append(finding)
        return {path: tuple(findings) for path, findings in files.items()}

    @cached_property
    def by_rule(self) -> dict[str, int]:
        """How many findings each rule code has, most first."""
        return dict(Counter(finding.code for finding in self.findings).most_common())
