"""Problems as text for people and as lists for programs."""

from __future__ import annotations

from typing import Any

from anydevice.doctor.lockcheck.check import Report
from anydevice.doctor.plan.published import collected
from anydevice.report.plain import printable

VERSION = 1  # of the form; raised when a program that reads it would break


def render(report: Report) -> str:
    """One block per problem, and a last line that sums up."""
    lines = []
    for problem in report.problems:
        kind = "note" if problem.note else "problem"
        sure = "" if problem.sure == "certain" else f" ({problem.sure})"
        lines += [
            printable(f"{problem.path}:{problem.line}: {kind} {problem.code}: {problem.message}{sure}"),
            printable(f"    mend: {problem.mend}"),
        ]
    wrong = sum(not problem.note for problem in report.problems)
    notes = len(report.problems) - wrong
    read = len(report.files)
    summary = f"{read} file{'s' * (read != 1)}, {wrong} problem{'s' * (wrong != 1)}, {notes} note{'s' * (notes != 1)}"
    return "\n".join([*lines, f"{summary}; facts as of {collected()}", ""])


def as_object(report: Report) -> dict[str, Any]:
    """The report as plain lists and dicts."""
    return {
        "version": VERSION,
        "facts_collected": collected(),
        "files": [str(path) for path in report.files],
        "problems": [
            {
                "code": problem.code,
                "path": str(problem.path),
                "line": problem.line,
                "message": problem.message,
                "mend": problem.mend,
                "sure": problem.sure,
                "note": problem.note,
                "source": problem.source,
            }
            for problem in report.problems
        ],
        "errors": list(report.errors),
    }
