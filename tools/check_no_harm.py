"""Check on real repositories that `fix` does no harm.

    python tools/check_no_harm.py [--unsafe] FOLDER...

Each FOLDER is one repository; it is copied, the copy is fixed, and these must hold: files that compiled still compile,
a second fix changes nothing, and no line changes outside of a finding's span but for added definitions and imports.
Prints a table and exits with 1 when something does not hold.
"""

from __future__ import annotations

import argparse
import difflib
import shutil
import sys
import tempfile
from pathlib import Path

from anydevice.finding import Finding
from anydevice.project.examine import examine
from anydevice.project.fixing import Pass, fix, parses, passes
from anydevice.project.settings import Settings
from anydevice.project.tree import Tree
from anydevice.source.document import Document, read


def main() -> int:
    """Check every folder that is named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--unsafe", action="store_true")
    options = parser.parse_args()
    print(f"{'repository':<40} {'files':>5} {'found':>6} {'fixed':>6} {'left':>5}  problems")
    bad = 0
    for folder in options.folders:
        with tempfile.TemporaryDirectory() as temporary:
            copy = Path(temporary) / folder.name
            shutil.copytree(folder, copy, symlinks=True)
            problems = check(copy, unsafe=options.unsafe)
        bad += bool(problems)
    print("no harm done" if not bad else f"harm done in {bad} of {len(options.folders)} repositories")
    return 1 if bad else 0


def check(folder: Path, *, unsafe: bool) -> list[str]:
    """Fix the files of `folder` in memory and say what does not hold."""
    tree = Tree([folder], Settings(cache=False, unsafe=unsafe, respect_gitignore=False), root=folder)
    scanned = tree.scan()
    problems: list[str] = []
    fixed_count = left_count = 0
    for found in tree.found:
        if not any(f.path == found.name for f in scanned.findings):
            continue
        before = read(found.path, found.name)

        def ask(document: Document) -> tuple[Finding, ...]:
            return examine(document, tree.circumstances).findings

        result = fix(before, ask, unsafe=unsafe)
        fixed_count += len(result.applied)
        left_count += len(result.left)
        problems += [f"{found.name}: dropped {f.code} ({why})" for f, why in result.dropped]
        if parses(before.data) and not parses(result.document.data):
            problems.append(f"{found.name}: no longer parses")
        for one in passes(before, ask, unsafe=unsafe):
            problems += [f"{found.name}:{line}: changed outside of a finding" for line in _strays(one)]
        again = fix(result.document, ask, unsafe=unsafe)
        if again.document.data != result.document.data:
            problems.append(f"{found.name}: a second fix changes it again ({again.applied[0].code})")
    print(
        f"{folder.name:<40} {len(tree.found):>5} {len(scanned.findings):>6} {fixed_count:>6} {left_count:>5}  "
        f"{'; '.join(problems[:4]) or '-'}"
    )
    return problems


def _strays(one: Pass) -> list[int]:
    """The lines that a pass changed though no edit of what it applied covers them."""
    covered: set[int] = set()
    for finding in one.applied:
        for span in (finding.span, *(edit.span for edit in finding.edits)):
            first = one.before.data.count(b"\n", 0, span.start) + 1
            covered.update(range(first, one.before.data.count(b"\n", 0, span.end) + 2))
    old, new = one.before.data.decode().splitlines(), one.after.data.decode().splitlines()
    strays: list[int] = []
    for tag, start, end, _, _ in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag not in ("insert", "equal"):
            strays += [line for line in range(start + 1, end + 1) if line not in covered]
    return strays


if __name__ == "__main__":
    sys.exit(main())
