"""The report as SARIF 2.1.0, for code-scanning services and editors.

Levels: a finding that a fix can mend is a warning; one that a person must decide on is a note.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from pathlib import PurePath
from typing import Any, TextIO
from urllib.parse import quote

from anydevice import __version__
from anydevice.finding import Finding, Span
from anydevice.report.summary import Report
from anydevice.rules.registry import all_rules

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def write(report: Report, stream: TextIO) -> None:
    """Write `report` as a SARIF log of one run."""
    json.dump(as_object(report), stream, indent=2, ensure_ascii=False)
    stream.write("\n")


def as_object(report: Report) -> dict[str, Any]:
    """`report` as a SARIF log in plain lists and dicts."""
    rules = [
        _rule(rule.code, rule.name, rule.summary, inspect.cleandoc(type(rule).__doc__ or "")) for rule in all_rules()
    ]
    known = {rule["id"]: index for index, rule in enumerate(rules)}
    for finding in report.findings:  # a finding that no rule of the catalogue made
        if finding.code not in known:
            known[finding.code] = len(rules)
            rules.append(_rule(finding.code, finding.name, finding.name.replace("-", " "), ""))
    notices = [(text, "error") for text in report.errors] + [(text, "note") for text in report.skipped]
    run = {
        "tool": {"driver": {"name": "anydevice", "version": __version__, "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, known[finding.code]) for finding in report.findings],
        "invocations": [
            {
                "executionSuccessful": not report.errors,
                "toolExecutionNotifications": [{"message": {"text": text}, "level": level} for text, level in notices],
            }
        ],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str, name: str, summary: str, explanation: str) -> dict[str, Any]:
    return {
        "id": code,
        "name": name,
        "shortDescription": {"text": summary},
        "fullDescription": {"text": explanation or summary},
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": "warning" if finding.fixable else "note",
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": {"artifactLocation": _artifact(finding), "region": _region(finding.span)}}],
        "partialFingerprints": {"anydevice/v1": _fingerprint(finding)},
        "properties": {"safety": finding.safety.value},
    }
    if finding.span.cell is not None:
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
    return {"uri": quote(PurePath(finding.path).as_posix(), errors="surrogateescape")}


def _region(span: Span) -> dict[str, int]:
    return {"startLine": span.line, "startColumn": span.column, "endLine": span.end_line, "endColumn": span.end_column}


def _fingerprint(finding: Finding) -> str:
    """The same for the same line of code, wherever edits elsewhere have moved it."""
    seed = "\0".join((finding.code, PurePath(finding.path).as_posix(), finding.source))
    return hashlib.sha256(seed.encode(errors="surrogateescape")).hexdigest()[:32]
