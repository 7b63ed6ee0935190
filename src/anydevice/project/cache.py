"""Findings kept by content: a file that did not change is not examined again."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from anydevice import __version__
from anydevice.finding import Edit, Finding, Safety, Span

_FORMAT = 1
_KEPT = 20_000  # files' worth of findings, the oldest of which go first


class Cache:
    """A file of findings for one project, by `stamp`: that of the code which made them (see `fingerprint`).

    Unreadable or foreign content counts as empty.
    """

    def __init__(self, path: Path, stamp: str) -> None:
        self._path = path
        self._stamp = stamp
        self._known: dict[str, list[Any]] = {}
        self._used: dict[str, list[Any]] = {}
        try:
            stored = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return
        if isinstance(stored, dict) and (stored.get("format"), stored.get("stamp")) == (_FORMAT, stamp):
            files = stored.get("files")
            self._known = files if isinstance(files, dict) else {}

    @classmethod
    def for_project(cls, root: Path, stamp: str) -> Cache:
        """The cache of the project at `root`, in the user's cache folder (or `ANYDEVICE_CACHE_DIR`)."""
        folder = os.environ.get("ANYDEVICE_CACHE_DIR")
        if not folder:
            from platformdirs import user_cache_dir

            folder = user_cache_dir("anydevice")
        key = hashlib.blake2b(os.fsencode(root), digest_size=12).hexdigest()
        return cls(Path(folder) / f"{key}.json", stamp)

    def get(self, key: str, path: str) -> list[Finding] | None:
        """The findings stored for `key`, as findings of the file `path`; None when there are none."""
        stored = self._known.get(key)
        if stored is None:
            return None
        try:
            findings = [_finding(item, path) for item in stored]
        except (TypeError, ValueError, KeyError, AttributeError):
            return None
        self._used[key] = stored
        return findings

    def put(self, key: str, findings: Sequence[Finding]) -> None:
        """Remember the findings of a file."""
        self._used[key] = [_stored(finding) for finding in findings]

    def save(self) -> None:
        """Write what is new, beside what other runs have found; a folder that cannot be written is no error."""
        if self._used.keys() <= self._known.keys():
            return
        files = {key: value for key, value in self._known.items() if key not in self._used} | self._used
        oldest = list(files)[: max(0, len(files) - max(_KEPT, len(self._used)))]
        for key in oldest:
            del files[key]
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._path.parent)
        except OSError:
            return
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(json.dumps({"format": _FORMAT, "stamp": self._stamp, "files": files}, separators=(",", ":")))
            Path(name).replace(self._path)
        except OSError:
            with suppress(OSError):
                Path(name).unlink()


def digest(data: bytes, *more: str) -> str:
    """The key of a file's content under some circumstances."""
    state = hashlib.blake2b(data, digest_size=16)
    for item in more:
        state.update(item.encode(errors="surrogateescape") + b"\0")
    return state.hexdigest()


def fingerprint() -> str:
    """Changes with every change of the rules and of the code that runs them."""
    package = Path(__file__).parent.parent
    stamps = [
        f"{file.name}:{stat.st_size}:{stat.st_mtime_ns}"
        for folder in ("rules", "rules/catalogue", "source", "project")
        for file in sorted((package / folder).glob("*.py"))
        for stat in [file.stat()]
    ]
    return hashlib.blake2b("\n".join([__version__, *stamps]).encode(), digest_size=12).hexdigest()


def _stored(finding: Finding) -> dict[str, Any]:
    stored = asdict(finding)
    del stored["path"]
    return stored


def _finding(stored: dict[str, Any], path: str) -> Finding:
    edits = tuple(Edit(Span(**edit["span"]), edit["text"]) for edit in stored["edits"])
    return Finding(
        stored["code"],
        stored["name"],
        path,
        Span(**stored["span"]),
        stored["message"],
        Safety(stored["safety"]),
        edits,
        stored["source"],
    )
