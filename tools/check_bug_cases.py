"""Scan the bug cases that a manifest describes, and compare what is reported with what should be.

    python tools/check_bug_cases.py FOLDER/manifest.json [--rules RULE,...] [--quiet-extra]

Every case names lines and rules; a line that is not reported by its rule is missing, a report that no case asks for is
extra. Exit 1 when something is missing or a case cannot be read.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from anydevice.rules import facts
from anydevice.rules.analysis import analyse
from anydevice.rules.registry import all_rules
from anydevice.rules.target import Target
from anydevice.source import document as documents

Place = tuple[int, str]


@dataclass(frozen=True)
class Outcome:
    """One case: what was expected, and what was reported with its safety."""

    file: str
    expected: frozenset[Place]
    reported: dict[Place, str]

    @property
    def missing(self) -> list[Place]:
        """Expected, not reported."""
        return sorted(self.expected - self.reported.keys())

    @property
    def extra(self) -> list[Place]:
        """Reported, not expected."""
        return sorted(self.reported.keys() - self.expected)


def examine(folder: Path, case: dict[str, object]) -> Outcome:
    """Scan one case file with every rule."""
    file = str(case["file"])
    path = folder / file
    document = documents.read(path, file)
    scan = case.get("scan", [])
    assert isinstance(scan, list)
    expected = frozenset((int(entry["line"]), str(entry["rule"])) for entry in scan)
    reported = {
        (finding.span.line, finding.name): finding.safety.value
        for finding in analyse(document, all_rules(), Target(), facts.of_source(document.data))
    }
    return Outcome(file, expected, reported)


def lines(outcome: Outcome) -> list[tuple[str, str]]:
    """(mark, text) for every place of one case."""
    marked = [("ok", place) for place in sorted(outcome.expected & outcome.reported.keys())]
    marked += [("MISSING", place) for place in outcome.missing]
    marked += [("extra", place) for place in outcome.extra]
    return [
        (mark, f"L{line:<3} {rule:32} {outcome.reported.get((line, rule), '')}")
        for mark, (line, rule) in sorted(marked, key=lambda item: item[1])
    ]


def main() -> int:
    """Print the table; 1 when something is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path, help="manifest.json, or the folder that holds it")
    parser.add_argument("--rules", default="", help="only these rules, by name, separated by commas")
    parser.add_argument("--quiet-extra", action="store_true", help="do not list extra findings")
    options = parser.parse_args()
    manifest: Path = options.manifest / "manifest.json" if options.manifest.is_dir() else options.manifest
    only = {name for name in options.rules.split(",") if name}
    missing = extra = expected = 0
    for case in json.loads(manifest.read_text(encoding="utf-8")):
        outcome = examine(manifest.parent, case)
        if only:
            outcome = Outcome(
                outcome.file,
                frozenset(place for place in outcome.expected if place[1] in only),
                {place: safety for place, safety in outcome.reported.items() if place[1] in only},
            )
        missing, extra, expected = (
            missing + len(outcome.missing),
            extra + len(outcome.extra),
            expected + len(outcome.expected),
        )
        print(outcome.file)
        for mark, shown in lines(outcome):
            if mark != "extra" or not options.quiet_extra:
                print(f"  {mark:8}{shown}")
    print(f"{expected} expected, {expected - missing} found, {missing} missing, {extra} extra")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
