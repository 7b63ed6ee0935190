"""The ratchet: only findings on lines that were added since a revision, as git tells."""

from __future__ import annotations

import difflib
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from anydevice.finding import Finding
from anydevice.source.document import Document

# By resolved path: the lines that were added; None where the whole file is new.
AddedLines = Mapping[Path, set[int] | None]

_DIFF = (
    *("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-relative", "--text", "--find-renames"),
    *("--unified=0", "--inter-hunk-context=0", "--src-prefix=a/", "--dst-prefix=b/"),
)
_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_ESCAPED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


class RatchetError(Exception):
    """git could not say what was added; the message says why."""


def added_lines(revision: str, root: Path) -> AddedLines:
    """The lines added since `revision` in the repository around `root`. Raises RatchetError."""
    if revision.startswith("-"):
        raise RatchetError(f"'{revision}' is no git revision")
    top = Path(os.fsdecode(_git(["rev-parse", "--show-toplevel"], root).removesuffix(b"\n")))
    added: dict[Path, set[int] | None] = {}
    for name, lines in _added(_git([*_DIFF, revision, "--"], top)):
        added[(top / os.fsdecode(name)).resolve()] = lines
    for name in _git(["ls-files", "--others", "--exclude-standard", "-z"], top).split(b"\0"):
        if name:
            added[(top / os.fsdecode(name)).resolve()] = None
    return added


def _added(diff: bytes) -> Iterator[tuple[bytes, set[int]]]:
    """Each file of a diff without context, and the numbers of its added lines."""
    lines: set[int] = set()
    body = 0  # lines of the hunk that are still to come: they may look like headers
    for line in diff.split(b"\n"):
        if body and line[:1] in (b"-", b"+"):
            body -= 1
        elif match := _HUNK.match(line):
            removed, first, count = (1 if group is None else int(group) for group in match.groups())
            lines.update(range(first, first + count))
            body = removed + count
        elif line.startswith(b"+++ "):
            lines = set()
            name = _unquoted(line.removeprefix(b"+++ ").rstrip(b"\t"))
            if name.startswith(b"b/"):
                yield name[2:], lines


def _unquoted(name: bytes) -> bytes:
    """A file name as git writes it: in quotes and with escapes where it has unusual characters."""
    if not name.startswith(b'"'):
        return name

    def character(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8)]) if len(code) == 3 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(character, name[1:-1])


def only_added(findings: Iterable[Finding], added: AddedLines) -> list[Finding]:
    """The findings that touch an added line. Notebooks count as a whole: their cells have no lines in git's eyes."""
    kept = []
    resolved: dict[str, Path] = {}
    for finding in findings:
        if finding.path not in resolved:
            resolved[finding.path] = Path(finding.path).resolve()
        path = resolved[finding.path]
        if path not in added:
            continue
        lines = added[path]
        span = finding.span
        if lines is None or span.cell is not None or not lines.isdisjoint(range(span.line, span.end_line + 1)):
            kept.append(finding)
    return kept


def only_on_added_lines(
    original: Document, changed: Document, findings: Sequence[Finding], lines: set[int] | None
) -> list[Finding]:
    """The findings of `changed` on `lines` of `original`, or on lines that a fix has written since."""
    if lines is None or changed.span(0, 0).cell is not None:
        return list(findings)
    old, new = original.data.splitlines(), changed.data.splitlines()
    old_of: dict[int, int] = {}
    for block in difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        old_of.update((block.b + step + 1, block.a + step + 1) for step in range(block.size))
    return [
        f
        for f in findings
        if any(n not in old_of or old_of[n] in lines for n in range(f.span.line, f.span.end_line + 1))
    ]


def _git(arguments: Sequence[str], folder: Path) -> bytes:
    try:
        done = subprocess.run(
            ["git", "-c", "core.quotePath=false", *arguments], cwd=folder, capture_output=True, check=False
        )
    except OSError as error:
        raise RatchetError(f"git cannot be run: {error.strerror}") from None
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines()
        raise RatchetError(f"git {arguments[0]} failed: {reason[0] if reason else 'no message'}")
    return done.stdout
