"""Findings kept by content: a file that did not change is not examined again."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from anydevice import __version__
from anydevice.finding import Edit, Finding, Safety, Span

_FORMAT = 1


class Cache:
    """A file of findings for one project, rule set and target. Unreadable or foreign content counts as empty."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, list[Any]] = {}
        self._used: dict[str, list[Any]] = {}
        try:
            stored = json.loads(path.read_bytes())
            if isinstance(stored, dict) and stored.get("format") == _FORMAT and isinstance(stored.get("files"), dict):
                self._known = stored["files"]
        except (OSError, ValueError, RecursionError):
            pass

    @classmethod
    def for_project(cls, root: Path, fingerprint: str) -> Cache:
        """The cache of the project at `root`, in the user's cache folder (or `ANYDEVICE_CACHE_DIR`)."""
        folder = os.environ.get("ANYDEVICE_CACHE_DIR")
        if not folder:
            from platformdirs import user_cache_dir

            folder = user_cache_dir("anydevice")
        key = hashlib.blake2b(f"{root}\0{fingerprint}".encode(), digest_size=12).hexdigest()
        return cls(Path(folder) / f"{key}.json")

    def get(self, key: str, path: str) -> list[Finding] | None:
        """The findings stored for `key`, as findings of the file `path`; None when there are none."""
        stored = self._known.get(key)
        if stored is None:
            return None
        try:
            findings = [_finding(item, path) for item in stored]
        except (TypeError, ValueError, KeyError):
            return None
        self._used[key] = stored
        return findings

    def put(self, key: str, findings: Sequence[Finding]) -> None:
        """Remember the findings of a file."""
        self._used[key] = [_stored(finding) for finding in findings]

    def save(self) -> None:
        """Write what this run used; a folder that cannot be written is no error."""
        if self._used == self._known:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._path.parent)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"format": _FORMAT, "files": self._used}, file, separators=(",", ":"))
            Path(name).replace(self._path)
        except OSError:
            pass


def digest(data: bytes, *more: str) -> str:
    """The key of a file's content under some circumstances."""
    state = hashlib.blake2b(data, digest_size=16)
    for item in more:
        state.update(item.encode())
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
