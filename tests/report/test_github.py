"""Workflow commands: one line each, whatever a message or a path contains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from anydevice.finding import Finding, Safety
from anydevice.report.github import render
from anydevice.report.summary import Report


def commands(*findings: Finding, errors: tuple[str, ...] = ()) -> list[str]:
    return render(Report(findings, 1, errors=errors)).splitlines()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        pytest.param(
            {},
            "::warning file=train.py,title=ADA01 hardcoded-cuda-call,line=7,endLine=7,col=5,endColumn=13::m",
            id="fixable",
        ),
        pytest.param(
            {"safety": Safety.MANUAL},
            "::notice file=train.py,title=ADA01 hardcoded-cuda-call,line=7,endLine=7,col=5,endColumn=13::m",
            id="for_a_person",
        ),
        pytest.param(
            {"cell": 2, "path": "n.ipynb"},
            "::warning file=n.ipynb,title=ADA01 hardcoded-cuda-call::cell 2, line 7: m",
            id="notebook_lines_are_not_file_lines",
        ),
        pytest.param(
            {"path": "a,b:c%d.py", "name": "n:1"},
            "::warning file=a%2Cb%3Ac%25d.py,title=ADA01 n%3A1,line=7,endLine=7,col=5,endColumn=13::m",
            id="properties_are_escaped",
        ),
        pytest.param(
            {"message": "50%: a, b\r\n::error::c"},
            "::warning file=train.py,title=ADA01 hardcoded-cuda-call,line=7,endLine=7,col=5,endColumn=13"
            "::50%25: a, b%0D%0A::error::c",
            id="message_stays_on_its_line",
        ),
    ],
)
def test_finding_is_one_command(make: Callable[..., Finding], changed: dict[str, object], said: str) -> None:
    assert commands(make(**{"message": "m", "line": 7, **changed})) == [said]


def test_end_column_is_left_out_over_several_lines(make: Callable[..., Finding]) -> None:
    finding = make(message="m")
    (command,) = commands(replace(finding, span=replace(finding.span, end_line=4)))
    assert command.endswith("line=1,endLine=4,col=5::m")


def test_errors_are_errors() -> None:
    assert commands(errors=("cannot read 'x': 100%",)) == ["::error title=anydevice::cannot read 'x': 100%25"]


def test_empty_report_is_silent() -> None:
    assert render(Report((), 9)) == ""
