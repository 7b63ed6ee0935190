"""Scans and fixes whole trees: discovers files, gathers project facts, spreads the work, keeps the cache."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from anydevice.finding import Finding
from anydevice.project.cache import Cache, digest, fingerprint
from anydevice.project.examine import Circumstances, Examined, examine, examine_file, examine_files
from anydevice.project.fixing import Fixed, fix
from anydevice.project.pins import oldest_torch
from anydevice.project.ratchet import only_on_added_lines
from anydevice.project.settings import Settings, project_root
from anydevice.rules import facts
from anydevice.rules.facts import Facts
from anydevice.rules.target import DEFAULT
from anydevice.source.discover import Found, Problem, discover
from anydevice.source.document import Document, TooLargeError, UnreadableError, read

_SMALL = 24  # files; below, starting workers costs more than it saves
_CHUNK = 16  # files per task, so that a few large files do not make one worker late

Progress = Callable[[int, int], None]


@dataclass
class Scanned:
    """What a scan found. `errors` are things asked for that could not be done."""

    findings: list[Finding] = field(default_factory=list)
    files: int = 0
    silenced: int = 0
    notices: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FixedFile:
    """One file after `fix_tree`; `diff` is empty where nothing changed."""

    name: str
    fixed: Fixed
    diff: str = ""


class Tree:
    """The files below some paths, with the settings and facts under which they are examined."""

    def __init__(self, paths: Sequence[Path], settings: Settings, *, root: Path | None = None) -> None:
        self.settings = settings
        self.root = root or project_root(paths)
        self.found: list[Found] = []
        self.problems: list[str] = []
        for item in discover(paths, exclude=settings.exclude, respect_gitignore=settings.respect_gitignore):
            if isinstance(item, Problem):
                self.problems.append(item.message)
            else:
                self.found.append(item)
        self._digests: dict[Path, str] = {}
        self.circumstances = self._circumstances()

    def _circumstances(self) -> Circumstances:
        """One look at every file: its digest, and what it says about the whole project."""
        gathered = Facts()
        for found in self.found:
            try:
                if found.path.stat().st_size > _LARGE:
                    continue
                data = found.path.read_bytes()
            except OSError:
                continue
            self._digests[found.path] = digest(data)
            suffix = found.path.suffix
            if suffix == ".py":
                gathered |= facts.of_source(data)
            elif suffix == ".ipynb" and b"cuda" in data.lower():
                gathered |= _facts_of_notebook(found)
        torch = self.settings.torch or str(oldest_torch(self.root) or DEFAULT)
        return Circumstances(self.settings.select, self.settings.ignore, torch, gathered)

    # -- scan --------------------------------------------------------------------------------------------------

    def scan(self, progress: Progress = lambda done, of: None) -> Scanned:
        """Examine every file; cached results are used where the settings allow."""
        result = Scanned(files=len(self.found), errors=list(self.problems))
        cache = Cache.for_project(self.root, fingerprint()) if self.settings.cache else None
        missed: list[tuple[Path, str]] = []
        examined: dict[Path, Examined] = {}
        for found in self.found:
            stored = cache.get(self._key(found), found.name) if cache is not None else None
            if stored is None:
                missed.append((found.path, found.name))
            else:
                examined[found.path] = Examined(found.path, tuple(stored))
        done = len(examined)
        progress(done, len(self.found))
        for batch in self._spread(missed):
            for item in batch:
                examined[item.path] = item
            done += len(batch)
            progress(done, len(self.found))
        for found in self.found:
            item = examined[found.path]
            result.findings += item.findings
            result.silenced += item.silenced
            result.notices += item.notices
            if item.error is not None:
                result.errors += item.error.splitlines()
            elif cache is not None and not item.silenced and not item.notices:
                cache.put(self._key(found), item.findings)
        if cache is not None:
            cache.save()
        return result

    def _key(self, found: Found) -> str:
        # A file's name decides its kind; the rest of the circumstances decide what is found in it.
        return digest(
            self._digests.get(found.path, str(found.path)).encode(), found.path.name, repr(self.circumstances)
        )

    def _spread(self, files: list[tuple[Path, str]]) -> Iterator[list[Examined]]:
        jobs = self.settings.jobs or os.cpu_count() or 1
        if jobs == 1 or len(files) < _SMALL:
            for path, name in files:
                yield [examine_file(path, name, self.circumstances)]
            return
        # Large files first: the last tasks to end are then the short ones.
        ordered = sorted(files, key=lambda item: -_size(item[0]))
        count = max(jobs * 4, -(-len(ordered) // _CHUNK))
        chunks = [ordered[start::count] for start in range(min(count, len(ordered)))]
        _ = self.circumstances.rules  # forked workers inherit the loaded rules
        method = "fork" if "fork" in multiprocessing.get_all_start_methods() and os.name == "posix" else None
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context(method)) as pool:
            yield from pool.map(examine_files, chunks, [self.circumstances] * len(chunks))

    # -- fix ---------------------------------------------------------------------------------------------------

    def fix(
        self, scanned: Scanned, *, write: bool, added: dict[Path, set[int] | None] | None = None
    ) -> Iterator[FixedFile]:
        """Fix the files in which `scanned` has findings, one by one; a file is written before the next is begun.

        With `added` (see `ratchet.added_lines`) only what stands on those lines. What cannot be written is added to
        `scanned.errors`.
        """
        touched = {finding.path for finding in scanned.findings if finding.fixable}
        for found in self.found:
            if found.name in touched:
                fixed = self._fix_file(found, scanned, write=write, added=added)
                if fixed is not None:
                    yield fixed

    def _fix_file(
        self, found: Found, scanned: Scanned, *, write: bool, added: dict[Path, set[int] | None] | None
    ) -> FixedFile | None:
        try:
            document = read(found.path, found.name)

            def ask(current: Document) -> Sequence[Finding]:
                findings = examine(current, self.circumstances, []).findings  # failures were told by the scan
                if added is None:
                    return findings
                return only_on_added_lines(document, current, findings, added.get(found.path.resolve(), set()))

            fixed = fix(document, ask, unsafe=self.settings.unsafe)
            if not fixed.applied:
                return FixedFile(found.name, fixed)
            if write:
                fixed.document.write()
            return FixedFile(found.name, fixed, document.diff(fixed.document))
        except (UnreadableError, OSError, UnicodeError) as error:
            scanned.errors.append(str(error))
            return None


_LARGE = 100 << 20


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _facts_of_notebook(found: Found) -> Facts:
    try:
        return facts.of_source(read(found.path, found.name).data)
    except (UnreadableError, TooLargeError):
        return Facts()
