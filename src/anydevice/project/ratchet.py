"""The ratchet: only findings on lines that were added since a revision, as git tells."""

from __future__ import annotations

import difflib
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from anydevice.finding import Finding
from anydevice.source.document import Document

_HUNK = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")


class RatchetError(Exception):
    """git could not say what was added; the message says why."""


def added_lines(revision: str, root: Path) -> dict[Path, set[int] | None]:
    """By file: the lines added since `revision` (None: the whole file is new). Raises RatchetError."""
    if revision.startswith("-"):
        raise RatchetError(f"'{revision}' is no revision")
    top = Path(_git(["rev-parse", "--show-toplevel"], root).strip())
    added: dict[Path, set[int] | None] = {}
    diff = _git(
        [
            "diff",
            "--no-color",
            "--no-ext-diff",
            "--no-renames",
            "-U0",
            "--src-prefix=a/",
            "--dst-prefix=b/",
            revision,
            "--",
        ],
        top,
    )
    current: set[int] = set()
    for line in diff.splitlines():
        if line.startswith("+++ "):
            current = set()
            name = line[4:].strip('"')
            if name.startswith("b/"):
                added[(top / name[2:].rstrip("\t")).resolve()] = current
        elif match := _HUNK.match(line):
            first, count = int(match.group(1)), int(match.group(2) or 1)
            current.update(range(first, first + count))
    for name in _git(["ls-files", "--others", "--exclude-standard", "-z"], top).split("\0"):
        if name:
            added[(top / name).resolve()] = None
    return added


def only_added(findings: Iterable[Finding], added: dict[Path, set[int] | None]) -> tuple[Finding, ...]:
    """The findings that touch an added line. Notebooks count as a whole: their cells have no lines in git's eyes."""
    kept = []
    for finding in findings:
        path = Path(finding.path).resolve()
        if path not in added:
            continue
        lines = added[path]
        span = finding.span
        if lines is None or span.cell is not None or not lines.isdisjoint(range(span.line, span.end_line + 1)):
            kept.append(finding)
    return tuple(kept)


def only_on_added_lines(
    original: Document, changed: Document, findings: Sequence[Finding], lines: set[int] | None
) -> list[Finding]:
    """The findings of `changed` on `lines` of `original`, or on lines that a fix has written since."""
    if lines is None or changed.span(0, 0).cell is not None:
        return list(findings)
    old, new = original.data.splitlines(), changed.data.splitlines()
    old_of = {}
    for block in difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        old_of.update((block.b + step + 1, block.a + step + 1) for step in range(block.size))
    return [
        f
        for f in findings
        if any(n not in old_of or old_of[n] in lines for n in range(f.span.line, f.span.end_line + 1))
    ]


def _git(arguments: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(
            ["git", "-c", "core.quotePath=false", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
        )
    except OSError as error:
        raise RatchetError(f"git cannot be run: {error}") from None
    if done.returncode:
        reason = done.stderr.strip().splitlines()
        raise RatchetError(f"git {arguments[0]} failed: {reason[-1] if reason else 'no message'}")
    return done.stdout
