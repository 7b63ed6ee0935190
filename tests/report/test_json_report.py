"""The report for programs follows its own schema."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace

import jsonschema
import pytest

from anydevice import __version__
from anydevice.finding import Finding
from anydevice.report import json_report
from anydevice.report.summary import Report


def test_schema_is_a_valid_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_report.schema())


def test_full_report_follows_the_schema(sample: Report, make: Callable[..., Finding]) -> None:
    report = replace(sample, fixed=(make(),), errors=("cannot read 'x'",))
    jsonschema.validate(json.loads(json_report.render(report)), json_report.schema())


def test_empty_report_follows_the_schema() -> None:
    read = json.loads(json_report.render(Report((), 0)))
    jsonschema.validate(read, json_report.schema())
    assert read["findings"] == []
    assert read["tool"] == {"name": "anydevice", "version": __version__}


def test_schema_refuses_an_unknown_field(sample: Report) -> None:
    read = json_report.as_object(sample)
    read["findings"][0]["colour"] = "red"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(read, json_report.schema())


def test_finding_has_its_place_and_its_edits(sample: Report) -> None:
    read = json.loads(json_report.render(sample))["findings"]
    assert {key: read[1][key] for key in ("path", "cell", "line", "column", "end_line", "end_column")} == {
        "path": "train.py",
        "cell": None,
        "line": 20,
        "column": 5,
        "end_line": 20,
        "end_column": 15,
    }
    assert read[1]["source"] == 's = torch.load("ä.pt")'
    assert [edit["text"] for edit in read[0]["edits"]] == ["x.to(device)"]
    assert [finding["fixable"] for finding in read] == [True, True, False, True, False]
    assert read[3]["cell"] == 3


def test_summary_counts_by_work_file_and_rule(sample: Report) -> None:
    summary = json_report.as_object(sample)["summary"]
    assert (summary["files"], summary["findings"], summary["suppressed"]) == (14, 5, 2)
    assert summary["per_file"]["a/ops.py"] == {"automatic": 0, "unsafe": 0, "decision": 0, "impossible": 1}
    assert summary["per_rule"]["ADA01"] == 2


def test_report_is_ascii_whatever_the_code_says(make: Callable[..., Finding]) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    json_report.write(Report((make("网 = x.cuda()", path="caf\udce9.py"),), 1), stream)
    stream.seek(0)
    assert json.load(stream)["findings"][0]["source"] == "网 = x.cuda()"
