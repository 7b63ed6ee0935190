"""The device bugs that people report are found, at the line to mend, by the rule that explains them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from anydevice.rules import facts
from anydevice.rules.analysis import analyse
from anydevice.rules.registry import all_rules
from anydevice.rules.target import Target
from anydevice.source import document as documents

_SPEC = importlib.util.spec_from_file_location("device_bugs", Path(__file__).with_name("device_bugs.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
device_bugs = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(device_bugs)

_EXPECTED = re.compile(r"# expect: ([\w-]+)")
_RULES = tuple(rule for rule in all_rules() if rule.code.startswith("ADQ"))


@pytest.mark.parametrize("title", device_bugs.PROGRAMS)
def test_bug_is_found_at_its_line(title: str, tmp_path: Path) -> None:
    source = device_bugs.HEAD + device_bugs.PROGRAMS[title]
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
