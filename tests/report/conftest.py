"""Findings to report: a maker of single ones, and a report that has one of everything."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anydevice.finding import Edit, Finding, Safety, Span
from anydevice.report.summary import Report


def _make(
    source: str = "x = x.cuda()",
    what: str = "x.cuda()",
    *,
    path: str = "train.py",
    line: int = 1,
    cell: int | None = None,
    code: str = "ADA01",
    name: str = "hardcoded-cuda-call",
    message: str = "moves to CUDA only; write 'x.to(device)'",
    safety: Safety = Safety.SAFE,
    becomes: str | None = "x.to(device)",
) -> Finding:
    """A finding about the first `what` in `source`."""
    before = source.index(what)
    start = len(source[:before].encode())
    span = Span(start, start + len(what.encode()), line, before + 1, line, before + 1 + len(what), cell)
    edits = () if becomes is None or safety is Safety.MANUAL else (Edit(span, becomes),)
    return Finding(code, name, path, span, message, safety, edits, source)


@pytest.fixture
def make() -> Callable[..., Finding]:
    return _make


@pytest.fixture
def sample() -> Report:
    return Report(
        findings=(
            _make("    x = x.cuda()  # [red] [/]", line=12),
            _make('s = torch.load("ä.pt")', "torch.load", line=20, code="ADJ01", name="load", safety=Safety.UNSAFE),
            _make("kernel[grid](x)", "kernel[grid]", path="a/ops.py", code="ADN01", name="cuda-only-kernel",
                  message="is a CUDA kernel\nwrite it in PyTorch", safety=Safety.MANUAL),
            _make("x.cuda()", path="look.ipynb", line=2, cell=3),
            _make("n = count()", "count()", path="look.ipynb", line=4, cell=3, code="ADB02", name="count",
                  message="counts CUDA devices", safety=Safety.MANUAL),
        ),
        files=14,
        notices=("'b.py' is larger than 5 MB; skipped",),
        suppressed=2,
    )  # fmt: skip
