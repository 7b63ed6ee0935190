"""Whole trees: the cache, workers, facts of a project, imports, and fixes that are refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from anydevice.finding import Edit, Finding, Safety, Span
from anydevice.project import tree as trees
from anydevice.project.cache import Cache, digest
from anydevice.project.examine import Circumstances
from anydevice.project.fixing import fix
from anydevice.project.imports import _TIES, scan_imports
from anydevice.project.settings import Settings
from anydevice.project.tree import Scanned, Tree
from anydevice.rules.facts import Facts
from anydevice.rules.registry import select
from anydevice.source.document import Document, read

TIED = "import torch\n\nx = torch.ones(2)\ny = x.cuda()\n"


def _scan(*paths: Path, **settings: Any) -> Scanned:
    return Tree(paths or [Path()], Settings(**settings)).scan()


# -- cache -----------------------------------------------------------------------------------------------------


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are examined rather than looked up."""
    names: list[str] = []
    real = trees.examine_file

    def note(path: Path, name: str, *rest: Any, **more: Any) -> Any:
        names.append(name)
        return real(path, name, *rest, **more)

    monkeypatch.setattr(trees, "examine_file", note)
    return names


@pytest.fixture
def cache_file(here: Path) -> Path:
    """The cache of the project, after one scan of two files."""
    (here / "a.py").write_text(TIED)
    (here / "b.py").write_text("import torch\n")
    _scan()
    (file,) = (here.parent / "cache").iterdir()
    return file


def test_a_second_scan_finds_the_same_without_looking(cache_file: Path, examined: list[str]) -> None:
    assert _scan() == _scan(cache=False)
    examined.clear()
    assert len(_scan().findings) == 1
    assert examined == []


def test_a_changed_file_is_looked_at_again(cache_file: Path, examined: list[str]) -> None:
    Path("b.py").write_text(TIED)
    assert len(_scan().findings) == 2
    # What b.py says now was known, for it is what a.py says; but it is another file name.
    assert examined == ["b.py"]


CHANGES: dict[str, dict[str, Any]] = {
    "rules": {"select": ("ADN",)},
    "torch": {"torch": "1.9"},
    "rules to ignore": {"ignore": ("ADA01",)},
}


@pytest.mark.parametrize("settings", CHANGES.values(), ids=CHANGES)
def test_other_circumstances_are_other_findings(
    settings: dict[str, Any], cache_file: Path, examined: list[str]
) -> None:
    assert _scan(**settings) == _scan(**settings, cache=False)
    assert examined[:3] == ["a.py", "b.py", "setup.cfg"]
    assert _scan().findings == _scan(cache=False).findings


def test_a_scan_of_a_part_keeps_what_is_known_of_the_rest(cache_file: Path, examined: list[str]) -> None:
    Path("c.py").write_text(TIED)
    _scan(Path("c.py"))
    examined.clear()
    _scan()
    assert examined == []


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\x00", b"[]", b"[" * 100_000, b'{"format": 1, "stamp": "x", "files": 3}'],
    ids=["empty", "half", "binary", "a list", "deep", "foreign"],
)
def test_a_broken_cache_counts_as_empty(content: bytes, cache_file: Path, examined: list[str]) -> None:
    cache_file.write_bytes(content)
    assert len(_scan().findings) == 1
    assert examined == ["a.py", "b.py", "setup.cfg"]


@pytest.mark.parametrize("entry", [3, [3], [{}], "x", [{"span": {}, "edits": [], "code": "x"}], {"a": 1}, None])
def test_a_broken_entry_counts_as_missing(entry: Any, cache_file: Path, examined: list[str]) -> None:
    stored = json.loads(cache_file.read_bytes())
    stored["files"] = dict.fromkeys(stored["files"], entry)
    cache_file.write_text(json.dumps(stored))
    assert len(_scan().findings) == 1
    assert examined == ["a.py", "b.py", "setup.cfg"]


def test_a_cache_that_cannot_be_written_is_no_error(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "a.py").write_text(TIED)
    (here.parent / "file").touch()
    monkeypatch.setenv("ANYDEVICE_CACHE_DIR", str(here.parent / "file" / "cache"))
    scanned = _scan()
    assert (len(scanned.findings), scanned.errors, scanned.notices) == (1, [], [])


def test_no_cache_is_made_where_none_is_wanted(here: Path) -> None:
    _scan(cache=False)
    assert not (here.parent / "cache").exists()


def test_the_same_text_in_another_folder_is_another_file(here: Path) -> None:
    """Some rules are about files of certain folders only."""
    for folder in ("conf", "other"):
        (here / folder).mkdir()
        (here / folder / "x.yaml").write_text("device: cuda\n")
    together = {finding.path for finding in _scan().findings}
    assert together == {finding.path for finding in _scan(cache=False).findings}


def test_findings_survive_the_cache(tmp_path: Path) -> None:
    span = Span(1, 2, 3, 4, 5, 6, 7)
    finding = Finding("ADA01", "name", "ä.py", span, "m\n", Safety.UNSAFE, (Edit(span, "漢"), Edit(span, "")), "s")
    cache = Cache(tmp_path / "c" / "x.json", "stamp")
    cache.put("key", [finding])
    cache.save()
    assert Cache(tmp_path / "c" / "x.json", "stamp").get("key", "ä.py") == [finding]
    assert Cache(tmp_path / "c" / "x.json", "another").get("key", "ä.py") is None
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["x.json"]


def test_a_digest_depends_on_every_part() -> None:
    parts = [digest(b"a"), digest(b"a", "b"), digest(b"a", "b", "c"), digest(b"a", "bc"), digest(b"a", "\udcff")]
    assert len(set(parts)) == len(parts)


def test_the_order_of_sets_does_not_matter_to_the_cache() -> None:
    """It differs from process to process."""
    names = [f"C{i}" for i in range(50)]
    keys = {Circumstances(facts=Facts(cuda_classes=frozenset(some))).key for some in (names, names[::-1])}
    assert len(keys) == 1
    assert keys != {Circumstances().key}


# -- workers ---------------------------------------------------------------------------------------------------


def test_workers_find_what_one_process_finds(here: Path) -> None:
    for number in range(60):
        (here / f"{number:02}.py").write_text(TIED * (number % 3) + f"# {number}\n")
    (here / "bad.py").write_bytes(b"\xff")
    (here / "data.cfg").write_bytes(b"\x00")
    alone, several = _scan(jobs=1, cache=False), _scan(jobs=2, cache=False)
    assert alone == several
    assert (len(alone.errors), len(alone.notices), alone.files) == (1, 1, 61)


def test_progress_ends_at_all_of_the_files(here: Path) -> None:
    for number in range(30):
        (here / f"{number:02}.py").write_text(TIED)
    told: list[tuple[int, int]] = []
    Tree([Path()], Settings(jobs=2, cache=False)).scan(lambda done, of: told.append((done, of)))
    assert told[-1] == (31, 31)
    assert told == sorted(told)


# -- facts -----------------------------------------------------------------------------------------------------


def test_facts_are_gathered_from_every_file(here: Path) -> None:
    late = "import os, torch\ndef main(gpu):\n    os.environ['CUDA_VISIBLE_DEVICES'] = gpu\n"
    (here / "main.py").write_text(late)
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    notebook = {"metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    cells = [{**cell, "source": "torch.cuda.set_device(1)"}]
    (here / "n.ipynb").write_text(json.dumps({"cells": cells, **notebook}))
    facts = Tree([Path()], Settings()).circumstances.facts
    assert (facts.sets_visible_devices, facts.sets_device) == (True, True)
    (here / "model.py").write_text(TIED)
    (file,) = [f for f in Tree([Path()], Settings(cache=False)).fix(_scan(), write=False) if f.name == "model.py"]
    assert b"def " in file.diff  # no constant that is computed at import


def test_a_module_imported_with_a_star_gets_private_names(here: Path) -> None:
    (here / "settings.py").write_text("import torch\ndevice = torch.device('cuda:1')\n")
    (here / "util.py").write_text(TIED)
    (here / "main.py").write_text("from settings import *\nfrom util import *\nprint(device)\n")
    (file,) = [f for f in Tree([Path()], Settings(cache=False)).fix(_scan(), write=False) if f.name == "util.py"]
    assert b"\n+_device = " in file.diff  # `device` would become what main prints


# -- fixes that are refused ------------------------------------------------------------------------------------


def _document(folder: Path, source: str) -> Document:
    (folder / "a.py").write_text(source)
    return read(folder / "a.py", "a.py")


def _replacing(old: str, new: str, safety: Safety = Safety.SAFE) -> Any:
    """An examination that finds every `old` and would make it `new`."""

    def ask(document: Document) -> Sequence[Finding]:
        start, found = 0, []
        while (start := document.data.find(old.encode(), start)) >= 0:
            span = document.span(start, start + len(old))
            source = document.line_text(span)
            found.append(Finding("ADX01", "x", "a.py", span, "m", safety, (Edit(span, new),), source))
            start += len(old)
        return found

    return ask


def test_a_fix_that_would_not_parse_is_dropped_and_the_others_are_made(tmp_path: Path) -> None:
    bad, good = _replacing("bad", "("), _replacing("good", "fine")
    fixed = fix(_document(tmp_path, "x = bad\ny = good\n"), lambda d: [*bad(d), *good(d)])
    assert fixed.document.data == b"x = bad\ny = fine\n"
    assert [finding.span.line for finding, _ in fixed.dropped] == [1]
    assert len(fixed.applied) == 1
    assert len(fixed.left) == 1


def test_unsafe_and_manual_fixes_wait(tmp_path: Path) -> None:
    document = _document(tmp_path, "x = old\n")
    unsafe, manual = _replacing("old", "new", Safety.UNSAFE), _replacing("old", "new", Safety.MANUAL)
    assert fix(document, unsafe).document.data == b"x = old\n"
    assert fix(document, unsafe, unsafe=True).document.data == b"x = new\n"
    assert fix(document, manual, unsafe=True).document.data == b"x = old\n"


def test_a_fix_that_never_ends_is_ended(tmp_path: Path) -> None:
    fixed = fix(_document(tmp_path, "x = a\n"), _replacing("a", "a + 1"))
    assert fixed.document.data.startswith(b"x = a + 1 + 1")


def test_code_that_never_parsed_may_be_fixed_but_not_made_worse(tmp_path: Path) -> None:
    document = _document(tmp_path, "print 'old'\nx = old\n")
    assert fix(document, _replacing("old", "new")).document.data == b"print 'new'\nx = new\n"
    assert fix(document, _replacing("x =", "x = ((")).document.data == document.data


def test_an_edit_that_cannot_be_made_is_dropped(tmp_path: Path) -> None:
    def ask(document: Document) -> Sequence[Finding]:
        outside = Edit(Span(900, 901, 1, 1, 1, 1), "x")
        return [Finding("ADX01", "x", "a.py", outside.span, "m", Safety.SAFE, (outside,))]

    fixed = fix(_document(tmp_path, "x\n"), ask)
    assert (fixed.document.data, len(fixed.dropped)) == (b"x\n", 1)


# -- imports ---------------------------------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on sys.path with packages that write a file when they are imported."""
    folder = tmp_path / "installed"
    boom = f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    for name, source in {
        "tied_pkg/__init__.py": boom,
        "tied_pkg/ops.py": boom + TIED,
        "free_pkg/__init__.py": boom,
        "tied_single.py": boom + TIED,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(source)
    monkeypatch.syspath_prepend(str(folder))
    return folder


IMPORTS = {
    "an import": ("import tied_pkg\n", ["tied_pkg"]),
    "an import under another name": ("import os, tied_pkg.ops as t\n", ["tied_pkg"]),
    "an import from it": ("try:\n    from tied_pkg.ops import y\nexcept ImportError: pass\n", ["tied_pkg"]),
    "a star": ("from tied_pkg import *\n", ["tied_pkg"]),
    "a single file": ("import tied_single\n", ["tied_single"]),
    "two in one line": ("import tied_pkg, tied_single\n", ["tied_pkg", "tied_single"]),
    "twice the same": ("import tied_pkg\nimport tied_pkg.ops\n", ["tied_pkg"]),
    "a free one": ("import free_pkg\n", []),
    "one that is not installed": ("import not_installed_at_all\n", []),
    "a relative one": ("from .tied_pkg import x\nfrom . import tied_pkg\n", []),
    "a comment and a text": ("# import tied_pkg\ns = 'import tied_pkg'\n", []),
    "torch itself": ("import torch\nfrom torchvision import ops\n", []),
    "a silenced one": ("import tied_pkg  # anydevice: ignore[ADR01] only on CUDA\n", []),
}


@pytest.mark.parametrize(("source", "packages"), IMPORTS.values(), ids=IMPORTS)
def test_imports_of_tied_packages_are_told_and_nothing_is_run(
    source: str, packages: list[str], installed: Path, here: Path
) -> None:
    (here / "user.py").write_text(source)
    found = scan_imports(Tree([Path()], Settings()))
    assert [finding.message.split("'")[1] for finding in found] == packages
    assert all((f.code, f.path, f.safety) == ("ADR01", "user.py", Safety.MANUAL) for f in found)
    assert not (installed.parent / "ran").exists()
    assert not {"tied_pkg", "tied_single", "free_pkg"} & sys.modules.keys()


def test_a_module_of_the_project_is_no_installed_package(installed: Path, here: Path) -> None:
    (here / "user.py").write_text("import tied_pkg\n")
    (here / "tied_pkg.py").touch()
    assert scan_imports(Tree([Path()], Settings())) == []


def test_a_selection_for_the_project_is_none_for_its_packages(installed: Path, here: Path) -> None:
    (here / "user.py").write_text("import tied_pkg\n")
    assert len(scan_imports(Tree([Path()], Settings(select=("ADN",), exclude=("*.py",))))) == 0
    assert len(scan_imports(Tree([Path()], Settings(select=("ADN",), ignore=("ADA",))))) == 1


def test_the_rules_that_tie_a_package_exist() -> None:
    assert len(select(_TIES)) >= len(_TIES)
