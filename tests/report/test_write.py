"""The front of the package: every format by its name."""

from __future__ import annotations

import io

import pytest

from anydevice.report import FORMATS, write
from anydevice.report.summary import Report


@pytest.mark.parametrize(
    ("format_", "beginning"),
    [("text", "train.py\n"), ("json", '{\n  "version": 1'), ("sarif", '{"$schema"'), ("github", "::warning ")],
)
def test_format_is_picked_by_name(sample: Report, format_: str, beginning: str) -> None:
    stream = io.StringIO()
    write(sample, format_, stream)
    assert stream.getvalue().startswith(beginning)
    assert format_ in FORMATS


def test_unknown_format_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="'xml'; there are text, json, sarif, github"):
        write(Report((), 0), "xml", io.StringIO())
