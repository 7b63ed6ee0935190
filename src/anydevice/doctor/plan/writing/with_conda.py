"""conda and mamba: Python from conda-forge, torch by pip from PyTorch's index.

The pytorch channel ended with torch 2.5, and which builds conda-forge has of a release is not in the facts.
"""

from __future__ import annotations

from anydevice.doctor.plan.choose import Choice
from anydevice.doctor.plan.plan import Plan
from anydevice.doctor.plan.writing.words import extra, is_free_threaded, python_number, quoted

TOOL = "conda"


def commands(plan: Plan, choice: Choice) -> list[str]:
    """One environment from one file."""
    return [f"conda env create --file environment-{extra(choice)}.yml", f"conda activate torch-{extra(choice)}"]


def files(plan: Plan) -> dict[str, str]:
    """One environment.yml per build."""
    return {f"environment-{extra(choice)}.yml": _environment(plan, choice) for choice in plan.choices}


def _environment(plan: Plan, choice: Choice) -> str:
    lines = [
        f"# torch for {choice.variant}; conda's own pytorch must not stand beside it.",
        f"name: torch-{extra(choice)}",
        "channels: [conda-forge, nodefaults]",
        "dependencies:",
        f"  - python={python_number(plan)}",
        *(["  - python-freethreading"] if is_free_threaded(plan) else []),
        "  - pip",
        "  - pip:",
        *([f"      - --index-url {choice.index}"] if choice.index else []),
        *(f"      - {quoted(requirement)}" for requirement in choice.requirements),
    ]
    return "\n".join([*lines, ""])
