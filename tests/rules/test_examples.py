"""Every rule's own examples: what it flags, what `fix` makes of it, and what it leaves alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from anydevice.finding import Edit, Finding
from anydevice.rules import facts
from anydevice.rules.analysis import analyse
from anydevice.rules.registry import all_rules
from anydevice.rules.rule import Example, Leave, ProjectRule, PythonRule, Rule
from anydevice.rules.target import Target
from anydevice.source import document as documents
from anydevice.source.document import Document

FILE_RULES = [rule for rule in all_rules() if not isinstance(rule, ProjectRule)]
EXAMPLES = [pytest.param(r, e, id=f"{r.code}-{e.id}") for r in FILE_RULES for e in r.examples]
LEAVES = [pytest.param(r, e, id=f"{r.code}-{e.why}") for r in FILE_RULES for e in r.leaves]


def _document(folder: Path, name: str, source: str) -> Document:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    return documents.read(path, name)


def _findings(document: Document, rule: Rule, torch: str | None = None) -> list[Finding]:
    target = Target.parse(torch) if torch else Target()
    return analyse(document, (rule,), target, facts.of_source(document.data))


def _is_definition(document: Document, edit: Edit) -> bool:
    """Whether an edit adds lines of its own (the device, its helper, an import) rather than changing one."""
    start = edit.span.start
    at_line_start = start == 0 or document.data[start - 1 : start] == b"\n" or start == len(document.data)
    return start == edit.span.end and at_line_start and edit.text.endswith("\n")


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_example_is_flagged_and_fixed_as_documented(rule: Rule, example: Example, tmp_path: Path) -> None:
    document = _document(tmp_path, example.path, example.before)
    findings = _findings(document, rule, example.torch)
    assert findings, "not flagged"
    edits = [e for f in findings if f.fixable for e in f.edits]
    if example.after is None:
        assert not edits, "an example without `after` must be for a person to decide"
        return
    visible = document.apply(e for e in dict.fromkeys(edits) if not _is_definition(document, e))
    assert visible.data.decode() == example.after
    whole = document.apply(dict.fromkeys(edits))
    if isinstance(rule, PythonRule) and example.path.endswith(".py"):
        ast.parse(whole.data)
    again = [f for f in _findings(whole, rule, example.torch) if f.fixable]
    assert not again, f"flagged again after the fix: {again}"


@pytest.mark.parametrize(("rule", "leave"), LEAVES)
def test_source_is_left_alone(rule: Rule, leave: Leave, tmp_path: Path) -> None:
    document = _document(tmp_path, leave.path, leave.source)
    assert not _findings(document, rule)


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_rule_is_documented(rule: Rule) -> None:
    assert rule.examples
    assert rule.__doc__
    assert rule.summary
    assert not rule.summary.endswith(".")
    assert rule.name == rule.name.lower()
    assert rule.code.startswith("AD")
