"""The report as SARIF 2.1.0, for code-scanning services and editors.

Levels: a finding that a fix can mend is a warning; one that a person must decide on is a note.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, TextIO
from urllib.parse import quote

from anydevice import __version__
from anydevice.finding import Finding, Span
from anydevice.report.rule_info import RuleInfo, catalogue
from anydevice.report.summary import Report

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def write(report: Report, stream: TextIO) -> None:
    """Write `report` as a SARIF log of one run."""
    stream.write(render(report))


def render(report: Report, rules: Mapping[str, RuleInfo] | None = None) -> str:
    """`report` as the text of a SARIF log."""
    return json.dumps(as_object(report, rules)) + "\n"  # without indent, which would take four times as long


def as_object(report: Report, rules: Mapping[str, RuleInfo] | None = None) -> dict[str, Any]:
    """`report` as a SARIF log in plain lists and dicts. `rules` describes them by code; by default the catalogue."""
    listed = dict(catalogue() if rules is None else rules)
    for finding in report.findings:  # a finding of a rule that is not described still needs an entry to point at
        listed.setdefault(finding.code, RuleInfo(finding.code, finding.name, finding.name.replace("-", " ")))
    known = {code: index for index, code in enumerate(listed)}
    notices = [(text, "error") for text in report.errors] + [(text, "note") for text in report.notices]
    seen: Counter[str] = Counter()
    run = {
        "tool": {"driver": {"name": "anydevice", "version": __version__, "rules": [_rule(r) for r in listed.values()]}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, known[finding.code], seen) for finding in report.findings],
        "invocations": [
            {
                "executionSuccessful": not report.errors,
                "toolExecutionNotifications": [{"message": {"text": text}, "level": level} for text, level in notices],
            }
        ],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: RuleInfo) -> dict[str, Any]:
    why = rule.why or rule.summary
    described: dict[str, Any] = {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": why},
        "help": {"text": why, "markdown": why},
    }
    if rule.help_uri is not None:
        described["helpUri"] = rule.help_uri
    return described


def _result(finding: Finding, index: int, seen: Counter[str]) -> dict[str, Any]:
    fingerprint = _fingerprint(finding)
    seen[fingerprint] += 1  # the same line can stand in a file twice
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": "warning" if finding.fixable else "note",
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": {"artifactLocation": _artifact(finding), "region": _region(finding.span)}}],
        "partialFingerprints": {"anydevice/v1": f"{fingerprint}:{seen[fingerprint]}"},
        "properties": {"safety": finding.safety.value},
    }
    if finding.span.cell is not None:  # the lines of a cell are not lines of the file
        result["message"]["text"] = f"cell {finding.span.cell}, line {finding.span.line}: {finding.message}"
        result["locations"][0]["physicalLocation"]["region"] = {"startLine": 1}
        result["locations"][0]["logicalLocations"] = [{"name": f"cell {finding.span.cell}"}]
    elif finding.fixable:
        replacements = [
            {"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.text}} for edit in finding.edits
        ]
        result["fixes"] = [
            {
                "description": {"text": f"{finding.name} ({finding.safety.value})"},
                "artifactChanges": [{"artifactLocation": _artifact(finding), "replacements": replacements}],
            }
        ]
    return result


def _artifact(finding: Finding) -> dict[str, str]:
    path = PurePath(finding.path)
    return {"uri": path.as_uri() if path.is_absolute() else quote(path.as_posix(), errors="surrogateescape")}


def _region(span: Span) -> dict[str, int]:
    return {"startLine": span.line, "startColumn": span.column, "endLine": span.end_line, "endColumn": span.end_column}


def _fingerprint(finding: Finding) -> str:
    """The same for the same line of code, wherever edits elsewhere have moved it."""
    seed = "\0".join((finding.code, PurePath(finding.path).as_posix(), finding.source.strip()))
    return hashlib.sha256(seed.encode(errors="surrogateescape")).hexdigest()[:32]
