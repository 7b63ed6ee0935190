"""The device bugs that people report are found, at the line to mend, by the rule that explains them.

The programs are in `device_bugs`, by theme; `# expect:` says what is to be found in the next line.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from anydevice.rules import facts
from anydevice.rules.analysis import analyse
from anydevice.rules.registry import all_rules
from anydevice.rules.target import Target
from anydevice.source import document as documents

_HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
_EXPECTED = re.compile(r"# expect: ([\w-]+)")
_PROGRAMS = {
    title: program
    for path in sorted(Path(__file__).with_name("device_bugs").glob("*.py"))
    for title, program in runpy.run_path(str(path))["PROGRAMS"].items()
}
_RULES = tuple(rule for rule in all_rules() if rule.code.startswith("ADQ"))


@pytest.mark.parametrize("title", _PROGRAMS)
def test_bug_is_found_at_its_line(title: str, tmp_path: Path) -> None:
    source = _HEAD + _PROGRAMS[title]
    expected = {
        (number + 1, match.group(1))
        for number, line in enumerate(source.splitlines(), 1)
        for match in _EXPECTED.finditer(line)
    }
    path = tmp_path / "program.py"
    path.write_text(source, encoding="utf-8")
    document = documents.read(path, "program.py")
    found = {(f.span.line, f.name) for f in analyse(document, _RULES, Target(), facts.of_source(document.data))}
    assert expected
    assert expected <= found
