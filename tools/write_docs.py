"""Write docs/rules.md and docs/rules/ from the rules themselves.

With --check only say whether they are up to date (exit status 1: no).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from anydevice.rules.handbook import page
from anydevice.rules.registry import all_rules
from anydevice.rules.rule import Rule

DOCS = Path(__file__).parent.parent / "docs"
EXAMPLES = 4  # of each kind on a page; `anydevice rules CODE` shows all
NOTICE = "Made from the rules by `make docs`; do not edit."


def main() -> int:
    """Write or check the pages."""
    pages = dict(_pages())
    folder = DOCS / "rules"
    stale = {path for path in folder.glob("*.md") if path not in pages}
    if "--check" in sys.argv[1:]:
        wrong = stale | {path for path, text in pages.items() if not path.exists() or path.read_text("utf-8") != text}
        for path in sorted(wrong):
            print(f"{path.relative_to(DOCS.parent)} is out of date; run 'make docs'")
        return 1 if wrong else 0
    folder.mkdir(exist_ok=True)
    for path in stale:
        path.unlink()
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    return 0


def _pages() -> Iterable[tuple[Path, str]]:
    rows = "\n".join(
        f"| [{rule.code}](rules/{rule.code[:3]}.md#{rule.name}-{rule.code.lower()}) | {rule.name} | {rule.summary} |"
        for rule in all_rules()
    )
    yield DOCS / "rules.md", f"# Rules\n\n{NOTICE}\n\n| code | name | what it finds |\n|---|---|---|\n{rows}\n"
    for family, rules in groupby(all_rules(), key=lambda rule: rule.code[:3]):
        yield DOCS / "rules" / f"{family}.md", _family(family, rules)


def _family(family: str, rules: Iterable[Rule]) -> str:
    head = (
        f"# Rules {family}\n\n{NOTICE} In the examples, `device` is the definition that `fix` adds after the "
        "imports, or one that the file has already. `anydevice rules CODE` shows all examples of a rule.\n\n"
    )
    # A rule's page is a document of its own; here it is a section.
    sections = (page(rule, limit=EXAMPLES).replace("\n## ", "\n### ").replace("# ", "## ", 1) for rule in rules)
    return head + "\n".join(sections)


if __name__ == "__main__":
    sys.exit(main())
