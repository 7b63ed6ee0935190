"""Scans and fixes whole trees: discovers files, gathers project facts, spreads the work, keeps the cache."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path

from anydevice.finding import Finding
from anydevice.project.cache import Cache, digest, fingerprint
from anydevice.project.examine import Circumstances, Examined, examine, examine_file, examine_files
from anydevice.project.fixing import Fixed, fix
from anydevice.project.pins import oldest_torch
from anydevice.project.ratchet import AddedLines, only_on_added_lines
from anydevice.project.settings import Settings, is_project, project_root
from anydevice.rules import facts
from anydevice.rules.facts import Facts
from anydevice.rules.target import DEFAULT
from anydevice.source.discover import Found, Problem, discover
from anydevice.source.document import MAX_NOTEBOOK_BYTES, Document, UnreadableError, read

_SMALL = 24  # files; below, starting workers costs more than it saves
_CHUNK = 16  # files per task, so that a few large files do not make one worker late
_TOLD = 3  # files that were left out and are named; more are counted

Progress = Callable[[int, int], None]


@dataclass
class Scanned:
    """What a scan found. `files` were read; `errors` are things asked for that could not be done."""

    findings: list[Finding] = field(default_factory=list)
    files: int = 0
    silenced: int = 0
    notices: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FixedFile:
    """One file after `Tree.fix`; `diff` is for `patch`, in the encoding of the file; empty where nothing changed."""

    name: str
    fixed: Fixed
    diff: bytes = b""


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
        self._named = {path.absolute() for path in paths}
        self._digests: dict[Path, str] = {}
        self._around = self._rest_of_project(paths)
        self.circumstances = self._circumstances()

    def _rest_of_project(self, paths: Sequence[Path]) -> list[Found]:
        """Files that were not asked for, but whose facts count: one file is then fixed as in a walk."""
        asked = {os.path.realpath(path) for path in paths}
        if os.path.realpath(self.root) in asked or not is_project(self.root):
            return []
        known = {os.path.realpath(found.path) for found in self.found}
        settings = self.settings
        rest = discover([self.root], exclude=settings.exclude, respect_gitignore=settings.respect_gitignore)
        code = [item for item in rest if isinstance(item, Found) and item.path.suffix in (".py", ".ipynb")]
        return [found for found in code if os.path.realpath(found.path) not in known]

    def _circumstances(self) -> Circumstances:
        """One look at every file: its digest, and what it says about the whole project."""
        gathered = Facts()
        for found in (*self.found, *self._around):
            data = _content(found.path)
            if data is None:
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
        cache = Cache.for_project(self.root, fingerprint()) if self.settings.cache else None
        missed: list[Found] = []
        examined: dict[Path, Examined] = {}
        for found in self.found:
            key = self._key(found)
            stored = cache.get(key, found.name) if cache is not None and key is not None else None
            if stored is None:
                missed.append(found)
            else:
                examined[found.path] = Examined(found.path, tuple(stored))
        progress(len(examined), len(self.found))
        errors = list(self.problems)
        try:
            for batch in self._spread(missed):
                examined.update((item.path, item) for item in batch)
                progress(len(examined), len(self.found))
        except BrokenProcessPool:
            left = len(self.found) - len(examined)
            errors.append(f"{left} files were not examined: a worker was killed, for want of memory?; try --jobs 1")
        if cache is not None:
            for found in self.found:
                item, key = examined.get(found.path), self._key(found)
                if item is not None and key is not None and not (item.silenced or item.notices or item.errors):
                    cache.put(key, item.findings)
            cache.save()
        return _gathered([examined[found.path] for found in self.found if found.path in examined], errors)

    def _key(self, found: Found) -> str | None:
        """What decides the findings in a file: its content, its name and folder (by which it has a kind), the rest."""
        content = self._digests.get(found.path)
        place = f"{found.path.parent.name}/{found.path.name}"
        return None if content is None else digest(content.encode(), place, self.circumstances.key)

    def _spread(self, files: list[Found]) -> Iterator[list[Examined]]:
        jobs = self.settings.jobs or _processors()
        named = [found for found in files if found.path.absolute() in self._named]
        alone = files if jobs == 1 or len(files) - len(named) < _SMALL else named
        for found in alone:
            is_named = found.path.absolute() in self._named
            yield [examine_file(found.path, found.name, self.circumstances, named=is_named)]
        if alone is files:
            return
        # Large files first: the last tasks to end are then the short ones.
        rest = [(found.path, found.name) for found in files if found.path.absolute() not in self._named]
        ordered = sorted(rest, key=lambda item: -_size(item[0]))
        count = max(jobs * 4, -(-len(ordered) // _CHUNK))
        chunks = [ordered[start::count] for start in range(min(count, len(ordered)))]
        _ = self.circumstances.rules  # forked workers inherit the loaded rules
        method = "fork" if sys.platform == "linux" else None  # elsewhere it is missing, or not safe
        pool = ProcessPoolExecutor(
            min(jobs, len(chunks)), mp_context=multiprocessing.get_context(method), initializer=_end_quietly
        )
        try:
            # Not `pool.map`, which cancels what is left when it is abandoned: where an interrupt killed the workers,
            # the pool of Python 3.11 then prints a traceback, since it cannot fail what is cancelled.
            for future in [pool.submit(examine_files, chunk, self.circumstances) for chunk in chunks]:
                yield future.result()
        except BaseException:
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise
        finally:
            pool.shutdown()

    # -- fix ---------------------------------------------------------------------------------------------------

    def fix(self, scanned: Scanned, *, write: bool, added: AddedLines | None = None) -> Iterator[FixedFile]:
        """Fix the files in which `scanned` has findings, one by one; a file is written before the next is begun.

        Without `write` nothing is changed, and each file's `diff` says what would be. With `added` (see
        `ratchet.added_lines`) only what stands on those lines. What cannot be done is added to `scanned.errors`.
        """
        touched = {finding.path for finding in scanned.findings if finding.fixable}
        for found in self.found:
            if found.name in touched:
                fixed = self._fix_file(found, scanned, write=write, added=added)
                if fixed is not None:
                    yield fixed

    def _fix_file(self, found: Found, scanned: Scanned, *, write: bool, added: AddedLines | None) -> FixedFile | None:
        try:
            document = read(found.path, found.name)

            def ask(current: Document) -> Sequence[Finding]:
                findings = examine(current, self.circumstances, []).findings  # failures were told by the scan
                if added is None:
                    return findings
                return only_on_added_lines(document, current, findings, added.get(found.path.resolve(), set()))

            fixed = fix(document, ask, unsafe=self.settings.unsafe)
            if write and fixed.applied:
                fixed.document.write()
            return FixedFile(found.name, fixed, b"" if write else _patch(document, fixed.document))
        except (UnreadableError, OSError) as error:
            scanned.errors.append(str(error))
        except Exception as error:  # a bug of ours, which must not keep the other files from being fixed
            reason = f"{type(error).__name__}: {error}"
            scanned.errors.append(f"cannot fix '{found.name}' ({reason}); please report this")
        return None


def _gathered(examined: list[Examined], errors: list[str]) -> Scanned:
    """The whole of what was found in files. A folder full of data is worth one notice, not thousands."""
    unread = [notice for item in examined if not item.is_read for notice in item.notices]
    if len(unread) > _TOLD:
        unread = [*unread[:_TOLD], f"{len(unread) - _TOLD} more files are too large or no text and were left out"]
    return Scanned(
        [finding for item in examined for finding in item.findings],
        sum(item.is_read for item in examined),
        sum(item.silenced for item in examined),
        unread + [notice for item in examined if item.is_read for notice in item.notices],
        errors + [error for item in examined for error in item.errors],
    )


def _content(path: Path) -> bytes | None:
    """The bytes of a file, unless it is too large or not a file: a pipe would never end."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_NOTEBOOK_BYTES:
            return None
        return path.read_bytes()
    except OSError:
        return None


def _facts_of_notebook(found: Found) -> Facts:
    try:
        return facts.of_source(read(found.path, found.name).data)
    except UnreadableError:
        return Facts()


def _patch(before: Document, after: Document) -> bytes:
    """The diff in the bytes of the files: names as the system has them, lines in the encoding of the file."""
    header, mark, body = before.diff(after).partition("\n@@")
    form = getattr(before, "form", None)
    encoding = "utf-8" if form is None else form.encoding
    return (header + mark).encode(errors="surrogateescape") + body.encode(encoding, errors="replace")


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _end_quietly() -> None:
    """Ctrl-C reaches every process of the terminal; workers end at once, without a word."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
