"""What the installed packages that a project imports are tied to: read where they lie, never imported or edited."""

from __future__ import annotations

import importlib.machinery
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from anydevice.finding import Finding, Safety
from anydevice.project.settings import Settings
from anydevice.project.tree import Tree
from anydevice.source.document import Document, UnreadableError, read
from anydevice.source.module import Module

CODE, NAME = "ADR01", "imported-package-tied-to-cuda"
# Packages that deal with devices for a living, and the standard library: their mentions of CUDA are no ties.
_NOT_ASKED = frozenset(
    {"torch", "torchvision", "torchaudio", "numpy", "anydevice", "__future__", *sys.stdlib_module_names}
)
_IMPORT = re.compile(rb"(?m)^[ \t]*(?:import|from)[ \t]+(\w+)")
# What ties a library to CUDA for its callers; questions and choices in it do not.
_TIES = ("ADA", "ADB05", "ADD", "ADE", "ADL", "ADN")


def scan_imports(tree: Tree) -> list[Finding]:
    """One finding per file and imported package that is tied to CUDA, at the line of the import."""
    own = {found.path.stem for found in tree.found} | {found.path.parent.name for found in tree.found}
    findings: list[Finding] = []
    ties: dict[str, str | None] = {}
    for found in tree.found:
        if found.path.suffix not in (".py", ".ipynb"):
            continue
        try:
            document = read(found.path, found.name)
        except UnreadableError:
            continue
        for package, start, end in _imported(document):
            if package in own or package in _NOT_ASKED:
                continue
            if package not in ties:
                ties[package] = _ties_of(package, tree.settings)
            message = ties[package]
            if message is not None:
                span = document.span(start, end)
                findings.append(
                    Finding(
                        CODE, NAME, document.name, span, message, Safety.MANUAL, (), document.line_text(span).strip()
                    )
                )
    return findings


def _imported(document: Document) -> Iterator[tuple[str, int, int]]:
    seen = set()
    for match in _IMPORT.finditer(document.data):
        package = match.group(1).decode()
        leaf = Module(document).leaf(*match.span(1)) if package not in seen and package not in _NOT_ASKED else None
        if leaf is not None and leaf.type == "identifier":
            seen.add(package)
            yield package, match.start(1), match.end(1)


def _ties_of(package: str, settings: Settings) -> str | None:
    """What to say of an installed package; None when it is not installed or not tied."""
    path = [entry for entry in sys.path if entry not in ("", ".")]
    spec = importlib.machinery.PathFinder.find_spec(package, path)
    if spec is None:
        return None
    places = [Path(p) for p in spec.submodule_search_locations or ()] or ([Path(spec.origin)] if spec.origin else [])
    places = [place for place in places if place.is_dir() or place.suffix == ".py"]
    if not places:
        return None
    scanned = Tree(
        places, replace(settings, respect_gitignore=False, torch=settings.torch or "2.6"), root=places[0]
    ).scan()
    found = [f for f in scanned.findings if f.code.startswith(_TIES)]
    if not found:
        return None
    files = Counter(f.path for f in found)
    worst = files.most_common(1)[0][0]
    first = next(f for f in found if f.path == worst)
    return (
        f"'{package}' is tied to CUDA in {len(found)} places of {len(files)} files, most in {Path(worst).name} "
        f"(first: line {first.span.line}, `{first.source[:60]}`); it is not edited: pass it a device, or run on CUDA "
        "what calls it"
    )
