"""What the installed packages that a project imports are tied to: read where they lie, never imported or edited."""

from __future__ import annotations

import importlib.machinery
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.project.settings import Settings
from anydevice.project.suppression import suppress
from anydevice.project.tree import Tree
from anydevice.rules.catalogue.r_packages import ImportedPackageTied as Tied
from anydevice.rules.target import DEFAULT
from anydevice.source.document import Document, UnreadableError, read
from anydevice.source.module import Module
from anydevice.source.syntax import field, first_named, text

# Packages that deal with devices for a living, and the standard library: their mentions of CUDA are no ties.
_NOT_ASKED = frozenset(
    {"torch", "torchvision", "torchaudio", "numpy", "anydevice", "__future__", *sys.stdlib_module_names}
)
_IMPORT = re.compile(rb"(?m)(?:^|[:;])[ \t]*(?:from[ \t]+(\w+)|import[ \t]+([^\n#;]*))")
# What ties a library to CUDA for its callers; questions and choices in it do not.
_TIES = ("ADA", "ADB05", "ADD", "ADE", "ADL", "ADN")


def scan_imports(tree: Tree) -> list[Finding]:
    """One finding per file and imported package that is tied to CUDA, at the line of the import."""
    own = {found.path.stem for found in tree.found} | {found.path.absolute().parent.name for found in tree.found}
    findings: list[Finding] = []
    ties: dict[str, str | None] = {}
    for found in tree.found:
        if found.path.suffix not in (".py", ".ipynb"):
            continue
        try:
            document = read(found.path, found.name)
        except UnreadableError:  # the scan has told
            continue
        here = []
        for package, node in _imported(document, own | _NOT_ASKED):
            if package not in ties:
                ties[package] = _ties_of(package, tree.settings)
            message = ties[package]
            if message is not None:
                span = document.span(node.start_byte, node.end_byte)
                source = document.line_text(span).rstrip()
                here.append(Finding(Tied.code, Tied.name, document.name, span, message, Safety.MANUAL, source=source))
        findings += suppress(document, here).findings
    return findings


def _imported(document: Document, left_out: set[str] | frozenset[str]) -> Iterator[tuple[str, Node]]:
    """The packages that a file imports, each once, with the node that names it first."""
    words = (word for match in _IMPORT.finditer(document.data) for word in re.findall(rb"\w+", match[1] or match[2]))
    if all(word.decode() in left_out for word in words):
        return  # many files; they need not be parsed
    seen = set(left_out)
    for statement in Module(document).names.import_statements:
        source = field(statement, "module_name")
        for named in [source] if source is not None else statement.children_by_field_name("name"):
            dotted = field(named, "name") if named.type == "aliased_import" else named
            first = first_named(dotted) if dotted is not None and dotted.type == "dotted_name" else None
            if first is not None and text(first) not in seen:
                seen.add(text(first))
                yield text(first), first


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
    asked = replace(
        settings, select=_TIES, ignore=(), exclude=(), respect_gitignore=False, torch=settings.torch or str(DEFAULT)
    )
    found = Tree(places, asked, root=places[0]).scan().findings
    if not found:
        return None
    files = Counter(f.path for f in found)
    worst = files.most_common(1)[0][0]
    first = next(f for f in found if f.path == worst)
    return (
        f"'{package}' is tied to CUDA: {len(found)} places in {len(files)} files, most in {Path(worst).name} "
        f"(first: line {first.span.line}, `{first.source.strip()[:60]}`); it is not edited: pass it a device, or run "
        "on CUDA what calls it"
    )
