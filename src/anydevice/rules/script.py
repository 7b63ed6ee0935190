"""Rules about commands: what a script rule is, and which files hold commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from anydevice.finding import Finding, Safety
from anydevice.rules.lines import hits, line_of, style_of
from anydevice.rules.rule import TextRule
from anydevice.rules.textfile import TextFile

SCRIPTS: tuple[str, ...] = (
    "*.sh", "*.bash", "*.zsh", "*.slurm", "*.sbatch", "*.sub", "*.job", "*.pbs", "*.lsf", "*.bat", "*.cmd", "*.ps1",
    "*.mk", "[Mm]akefile", "GNUmakefile", "[Jj]ustfile",
)  # fmt: skip
DOCKERFILES: tuple[str, ...] = ("*[Dd]ockerfile*", "*.[Dd]ockerfile", "Containerfile*", "*.[Cc]ontainerfile")


class ScriptRule(TextRule):
    """A rule about commands: the first hit of each pattern is reported, with the number of those that follow."""

    files: ClassVar[tuple[str, ...]] = SCRIPTS
    patterns: ClassVar[tuple[tuple[re.Pattern[bytes], str], ...]]
    unless: ClassVar[re.Pattern[bytes] | None] = None

    def check(self, file: TextFile) -> Iterator[Finding]:
        style = style_of(file.document.path.name)
        for pattern, message in self.patterns:
            found = [
                match
                for match in hits(file.data, pattern, style)
                if self.unless is None or not self.unless.search(line_of(file.data, match.start("at")))
            ]
            if found:
                first = found[0]
                written = first.group("at").decode("utf-8", "replace").strip()
                more = f" (and {len(found) - 1} more in this file)" if len(found) > 1 else ""
                yield file.finding(
                    self, first.start("at"), first.end("at"), f"`{written}`{more} {message}", Safety.MANUAL
                )
