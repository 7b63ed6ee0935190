"""The SARIF log is valid by the official schema and points at the right places."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from anydevice.finding import Finding, Safety
from anydevice.report import sarif
from anydevice.report.rule_info import RuleInfo, catalogue
from anydevice.report.summary import Report

RULES = {"ADA01": RuleInfo("ADA01", "hardcoded-cuda-call", "One line", "Why.\n\nMore.", "https://example.org/ADA01")}


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads((Path(__file__).parent / "data" / "sarif-2.1.0.schema.json").read_bytes())
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


def run_of(report: Report) -> Any:
    return json.loads(sarif.render(report, RULES))["runs"][0]


@pytest.mark.parametrize("errors", [(), ("cannot read 'x.py'",)], ids=["complete", "with_errors"])
def test_log_is_valid(sample: Report, validator: jsonschema.Draft202012Validator, errors: tuple[str, ...]) -> None:
    validator.validate(json.loads(sarif.render(replace(sample, errors=errors), RULES)))


def test_empty_log_with_the_whole_catalogue_is_valid(validator: jsonschema.Draft202012Validator) -> None:
    log = sarif.as_object(Report((), 3))
    validator.validate(log)
    assert [rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]] == list(catalogue())
    assert log["runs"][0]["results"] == []


def test_every_result_points_at_its_rule(sample: Report) -> None:
    run = run_of(sample)
    rules = run["tool"]["driver"]["rules"]
    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == [f.code for f in sample.findings]
    assert rules[0]["helpUri"] == "https://example.org/ADA01"
    assert "helpUri" not in rules[1], "a rule that is not described has no page"


def test_region_counts_characters(sample: Report) -> None:
    run = run_of(sample)
    assert run["columnKind"] == "unicodeCodePoints"
    place = run["results"][1]["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 20, "startColumn": 5, "endLine": 20, "endColumn": 15}


def test_notebook_is_pointed_at_in_words_and_gets_no_fix(sample: Report) -> None:
    result = run_of(sample)["results"][3]
    assert result["message"]["text"].startswith("cell 3, line 2")
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 1
    assert "fixes" not in result


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        pytest.param("src/a b.py", "src/a%20b.py", id="space"),
        pytest.param("ä/#1?.py", "%C3%A4/%231%3F.py", id="non_ascii_and_reserved"),
        pytest.param("c:x.py", "c%3Ax.py", id="colon_is_no_scheme"),
        pytest.param("caf\udce9.py", "caf%E9.py", id="bytes_that_are_no_utf8"),
        pytest.param("/w/x y.py", "file:///w/x%20y.py", id="absolute"),
    ],
)
def test_path_is_percent_encoded(make: Callable[..., Finding], path: str, uri: str) -> None:
    result = run_of(Report((make(path=path),), 1))["results"][0]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


@pytest.mark.parametrize(
    ("safety", "level", "fixes"),
    [(Safety.SAFE, "warning", 1), (Safety.UNSAFE, "warning", 1), (Safety.MANUAL, "note", 0)],
)
def test_level_says_whether_a_fix_mends_it(
    make: Callable[..., Finding], safety: Safety, level: str, fixes: int
) -> None:
    result = run_of(Report((make(safety=safety),), 1))["results"][0]
    assert (result["level"], len(result.get("fixes", []))) == (level, fixes)


def test_fix_replaces_the_span_by_the_text(make: Callable[..., Finding]) -> None:
    change = run_of(Report((make(),), 1))["results"][0]["fixes"][0]["artifactChanges"][0]
    assert change["replacements"] == [
        {
            "deletedRegion": {"startLine": 1, "startColumn": 5, "endLine": 1, "endColumn": 13},
            "insertedContent": {"text": "x.to(device)"},
        }
    ]


def test_fingerprint_survives_moved_lines_and_tells_equal_lines_apart(make: Callable[..., Finding]) -> None:
    def prints(*lines: int) -> list[str]:
        results = run_of(Report(tuple(make(line=line) for line in lines), 1))["results"]
        return [result["partialFingerprints"]["anydevice/v1"] for result in results]

    assert prints(1, 2) == prints(11, 99)
    assert len(set(prints(1, 2))) == 2


def test_errors_and_notices_are_told_of_the_run(sample: Report) -> None:
    invocation = run_of(replace(sample, errors=("cannot read 'x.py'",)))["invocations"][0]
    assert invocation["executionSuccessful"] is False
    assert [notice["level"] for notice in invocation["toolExecutionNotifications"]] == ["error", "note"]
    assert run_of(sample)["invocations"][0]["executionSuccessful"] is True
