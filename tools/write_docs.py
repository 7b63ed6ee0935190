"""Write docs/rules.md from the rules themselves; with --check only say whether it is up to date (exit status 1: no)."""

from __future__ import annotations

import sys
from pathlib import Path

from anydevice.rules.handbook import page
from anydevice.rules.registry import all_rules

TARGET = Path(__file__).parent.parent / "docs" / "rules.md"


def main() -> int:
    """Write or check the page."""
    rules = all_rules()
    table = "\n".join(f"| [{r.code}](#{r.name}-{r.code.lower()}) | {r.name} | {r.summary} |" for r in rules)
    head = (
        "# Rules\n\nMade from the rules by `make docs`; do not edit. In the examples, `device` is the definition that "
        "`fix` adds after the imports, or one that the file has already.\n\n"
        f"| code | name | what it finds |\n|---|---|---|\n{table}\n"
    )
    # A rule's page is a document of its own; here it is a section.
    pages = "\n".join(page(rule).replace("\n## ", "\n### ").replace("# ", "## ", 1) for rule in rules)
    text = f"{head}\n{pages}"
    if "--check" in sys.argv[1:]:
        if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text:
            return 0
        print(f"{TARGET} is out of date; run 'make docs'")
        return 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
