"""The counts by which a person decides on a port."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from anydevice.finding import Finding, Safety
from anydevice.report.summary import IMPOSSIBLE, Counts, Report


@pytest.mark.parametrize(
    ("safety", "name", "becomes", "counts"),
    [
        pytest.param(Safety.SAFE, "x", "y", Counts(automatic=1), id="safe_edits_are_automatic"),
        pytest.param(Safety.UNSAFE, "x", "y", Counts(unsafe=1), id="unsafe_edits_need_the_option"),
        pytest.param(Safety.MANUAL, "x", None, Counts(decision=1), id="manual_needs_a_decision"),
        pytest.param(Safety.SAFE, "x", None, Counts(decision=1), id="nothing_to_apply_is_not_automatic"),
        *(
            pytest.param(Safety.MANUAL, name, None, Counts(impossible=1), id=f"{name}_has_no_rewrite")
            for name in sorted(IMPOSSIBLE)
        ),
    ],
)
def test_finding_is_counted_by_the_work_it_asks_for(
    make: Callable[..., Finding], safety: Safety, name: str, becomes: str | None, counts: Counts
) -> None:
    assert Counts.of([make(safety=safety, name=name, becomes=becomes)]) == counts


def test_counts_add_up(sample: Report) -> None:
    assert sample.counts == Counts(automatic=2, unsafe=1, decision=1, impossible=1)
    assert sample.counts.total == len(sample.findings)


def test_findings_are_grouped_by_file_and_counted_by_rule(sample: Report) -> None:
    assert {path: len(findings) for path, findings in sample.by_file.items()} == {
        "train.py": 2,
        "a/ops.py": 1,
        "look.ipynb": 2,
    }
    assert next(iter(sample.by_rule.items())) == ("ADA01", 2)


def test_package_imports_neither_rich_nor_rules() -> None:
    script = (
        "import sys, anydevice.report; print([m for m in sys.modules if m.startswith(('rich', 'anydevice.rules'))])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
