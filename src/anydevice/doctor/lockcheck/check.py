"""Files in, problems out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from anydevice.doctor.lockcheck.problem import Intent, Problem, judges
from anydevice.doctor.lockcheck.reading import read
from anydevice.doctor.lockcheck.reading.text import Unreadable
from anydevice.doctor.plan.choose import FAMILIES
from anydevice.doctor.plan.target import TargetError, python_version
from anydevice.doctor.plan.variant import is_variant

_WORD = re.compile(r"[a-z]+\d*(?:\.\d+)*", re.ASCII)


@dataclass(frozen=True)
class Report:
    """What was found in `files`; `errors` are one line each about what could not be read."""

    files: tuple[Path, ...]
    problems: tuple[Problem, ...]
    errors: tuple[str, ...]

    @property
    def has_problems(self) -> bool:
        """Whether anything is wrong; notes are not."""
        return any(not problem.note for problem in self.problems)


def check_files(paths: Iterable[Path], *, variant: str | None = None, python: str | None = None) -> Report:
    """Judge files one by one. Raises TargetError where `variant` or `python` is none."""
    if variant is not None and not (is_variant(variant) or variant in FAMILIES):
        raise TargetError(
            f"'{variant[:40]}' is no build of PyTorch; there are {', '.join(FAMILIES)}, cu126, rocm7.2 ..."
        )
    if python is not None:
        python_version(python)
    problems: list[Problem] = []
    errors: list[str] = []
    files = tuple(dict.fromkeys(paths))
    for path in files:
        try:
            listing = read(path)
        except Unreadable as error:
            errors.append(str(error))
            continue
        errors += listing.errors
        intent = Intent(variant or meant_for(path), python)
        found = {problem for judge in judges() for problem in judge(listing, intent)}
        problems += sorted(found, key=lambda p: (p.path != path, str(p.path), p.line, p.code, p.message))
    return Report(files, tuple(problems), tuple(errors))


def meant_for(path: Path) -> str | None:
    """The build that a file's name tells: `requirements-cpu.txt`, `environment.cu126.yml`; None where it tells none."""
    words = {word for word in _WORD.findall(path.stem.lower()) if word in ("gpu", *FAMILIES) or is_variant(word)}
    words = {"cuda" if word == "gpu" else word for word in words} - {"mps"}
    return words.pop() if len(words) == 1 else None
