"""Which files there are to scan below some paths: by kind, without what git ignores and what nobody wrote by hand."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

KINDS = ("python", "notebook", "config")

_SKIPPED = frozenset(
    (
        ".git",
        ".hg",
        ".svn",
        ".venv",
        "node_modules",
        "__pycache__",
        ".ipynb_checkpoints",
        "build",
        "dist",
        ".tox",
        ".nox",
    )
) | {".mypy_cache", ".ruff_cache", "site-packages"}
_BY_SUFFIX = {
    **dict.fromkeys((".py", ".pyi", ".pyw"), "python"),
    ".ipynb": "notebook",
    **dict.fromkeys((".yaml", ".yml", ".json", ".json5", ".toml", ".ini", ".cfg", ".conf", ".lock"), "config"),
    **dict.fromkeys((".dockerfile", ".containerfile", ".sh", ".bash", ".zsh", ".bat", ".cmd", ".ps1", ".mk"), "config"),
    **dict.fromkeys((".slurm", ".sbatch", ".pbs", ".lsf", ".job", ".sub"), "config"),
    **dict.fromkeys((".j2", ".jinja", ".jinja2", ".mako", ".tmpl", ".tpl", ".template"), "config"),
}
_CONFIG_NAME = re.compile(
    r"(?:dockerfile|containerfile).*|pipfile|(?:gnu)?makefile|justfile|.*(?:requirements|constraints).*\.(?:txt|in)|reqs?\.txt"
    r"|.*\.py\.(?:in|txt)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Found:
    """A file to scan; `name` is how it is shown: relative to the working directory where it is below that."""

    path: Path
    name: str


@dataclass(frozen=True)
class Problem:
    """A path that cannot be looked at; `message` says which and why, in one line."""

    path: Path
    message: str


def discover(
    paths: Sequence[Path],
    *,
    exclude: Sequence[str] = (),
    kinds: Collection[str] = KINDS,
    respect_gitignore: bool = True,
) -> Iterator[Found | Problem]:
    """The files at and below `paths`, each once, in a fixed order.

    A file that is named itself is always taken. `exclude` are patterns as in a .gitignore, relative to the working
    directory or to the path given. Links met on the way are not followed.
    """
    walk = _Walk(frozenset(kinds), exclude, respect_gitignore=respect_gitignore)
    seen: set[str] = set()
    for path in paths:
        given = os.fspath(path)
        try:
            real = os.path.realpath(path, strict=True).replace(os.sep, "/")
        except OSError as error:
            yield _problem(given, error)
            continue
        shown = _shown(given)
        for item in walk.below(shown, real) if path.is_dir() else [(shown, real)]:
            if isinstance(item, Problem):
                yield item
            elif item[1] not in seen:
                seen.add(item[1])
                yield Found(Path(item[0]), item[0])


def kind_of(name: str, folder: str = "") -> str | None:
    """What a file of this name in a folder of that name is: one of KINDS, or nothing of interest."""
    dot = name.rfind(".")
    kind = _BY_SUFFIX.get(name[dot:].lower()) if dot >= 0 else None
    if kind is not None:
        return kind
    if _CONFIG_NAME.fullmatch(name) or (folder == "requirements" and name.endswith(".txt")):
        return "config"
    return None


_Ignores = tuple[tuple[int, "GitIgnoreSpec"], ...]  # each with the length of the folder that it is relative to


class _Walk:
    """What is looked for, and what is left out."""

    def __init__(self, kinds: frozenset[str], exclude: Sequence[str], *, respect_gitignore: bool) -> None:
        self._kinds = kinds
        self._exclude = _spec(exclude) if exclude else None
        self._respect = respect_gitignore

    def below(self, shown: str, real: str) -> Iterator[tuple[str, str] | Problem]:
        """The files below a folder: shown name and real path of each; a folder's files come before its folders."""
        prefix = "" if shown == "." else _slashed(shown, os.sep)
        above = _ignores_above(real) if self._respect else ()
        if _ignored(above, real + "/"):
            above = ()  # asked for by name: only what is ignored within it is left out
        stack = [(prefix, _slashed(real, "/"), above)]
        roots = len(prefix), stack[0][1]
        while stack:
            prefix, folder, ignores = stack.pop()
            try:
                with os.scandir(folder) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name)
            except OSError as error:
                yield _problem(prefix.rstrip(os.sep) or shown, error)
                continue
            names = {entry.name for entry in entries}
            if folder != roots[1] and "pyvenv.cfg" in names:
                continue  # a virtual environment, whatever it is called
            if self._respect:
                ignores = _ignores_of(folder, names, ignores)
            parent = folder[:-1].rpartition("/")[2]
            filtered = bool(ignores) or self._exclude is not None
            folders = []
            for entry in entries:
                name = entry.name
                if entry.is_dir(follow_symlinks=False):
                    if name in _SKIPPED or name.endswith(".egg-info"):
                        continue
                    if not filtered or not self._left_out(prefix + name + "/", folder + name + "/", ignores, roots[0]):
                        folders.append((prefix + name + os.sep, folder + name + "/", ignores))
                elif (
                    kind_of(name, parent) in self._kinds
                    and entry.is_file(follow_symlinks=False)
                    and not (filtered and self._left_out(prefix + name, folder + name, ignores, roots[0]))
                ):
                    yield prefix + name, folder + name
            stack.extend(reversed(folders))

    def _left_out(self, shown: str, real: str, ignores: _Ignores, root: int) -> bool:
        if ignores and _ignored(ignores, real):
            return True
        if self._exclude is None:
            return False
        shown = shown.replace(os.sep, "/")
        return self._exclude.match_file(shown) or self._exclude.match_file(shown[root:])


# -- .gitignore ------------------------------------------------------------------------------------------------


def _ignored(ignores: _Ignores, path: str) -> bool:
    """Whether the last pattern that matches says so; a deeper file has the last word."""
    for length, spec in reversed(ignores):
        verdict = spec.check_file(path[length:]).include
        if verdict is not None:
            return verdict
    return False


def _ignores_above(real: str) -> _Ignores:
    """The ignore files that hold for a folder from those above it, up to the root of its repository."""
    if os.path.lexists(real + "/.git"):
        return ()
    above: list[str] = []
    folder = real
    while (parent := os.path.dirname(folder)) != folder:  # noqa: PTH120
        folder = parent
        above.append(_slashed(folder, "/"))
        if os.path.lexists(above[-1] + ".git"):
            ignores: _Ignores = ()
            for one in reversed(above):
                ignores = _ignores_of(one, {".gitignore", ".git"} if one == above[-1] else {".gitignore"}, ignores)
            return ignores
    return ()


def _ignores_of(folder: str, names: set[str], ignores: _Ignores) -> _Ignores:
    """`ignores` as they hold in `folder`, which holds `names`."""
    if ".git" in names:  # a repository of its own, to which those above do not apply
        ignores = _with_file((), folder + ".git/info/exclude", len(folder))
    return _with_file(ignores, folder + ".gitignore", len(folder)) if ".gitignore" in names else ignores


def _with_file(ignores: _Ignores, file: str, length: int) -> _Ignores:
    try:
        text = Path(file).read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return ignores
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return (*ignores, (length, _spec(lines))) if lines else ignores


def _spec(lines: Sequence[str]) -> GitIgnoreSpec:
    """The patterns, without those that git would not understand either."""
    from pathspec import GitIgnoreSpec  # only where there is something to ignore

    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        return GitIgnoreSpec.from_lines([line for line in lines if _is_pattern(line)])


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


# -- names -----------------------------------------------------------------------------------------------------


def _shown(given: str) -> str:
    """A path as it was given, but relative to the working directory where it is below that."""
    if not os.path.isabs(given):  # noqa: PTH117
        return given
    here = _slashed(os.getcwd(), os.sep)  # noqa: PTH109
    return given[len(here) :] or "." if given.startswith(here) else "." if given + os.sep == here else given


def _slashed(path: str, separator: str) -> str:
    return path if path.endswith(separator) else path + separator


def _problem(given: str, error: OSError) -> Problem:
    reason = error.strerror or str(error)
    return Problem(Path(given), f"cannot read '{given}': {reason[:1].lower()}{reason[1:]}")
