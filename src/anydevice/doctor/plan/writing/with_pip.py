"""pip: one virtual environment per build, and a requirements file for what comes from PyTorch's index."""

from __future__ import annotations

from anydevice.doctor.plan.choose import Choice
from anydevice.doctor.plan.plan import Plan
from anydevice.doctor.plan.writing.words import extra, quoted

TOOL = "pip"


def commands(plan: Plan, choice: Choice) -> list[str]:
    """A virtual environment, and torch into it before anything that would pull in another build."""
    python = plan.target.python
    folder = f".venv-{extra(choice)}"
    if plan.target.system == "windows":
        make, inside = f"py -{python} -m venv {folder}", f"{folder}\\Scripts\\python"
    else:
        make, inside = f"python{python} -m venv {folder}", f"{folder}/bin/python"
    index = f" --index-url {choice.index}" if choice.index else ""
    return [make, f"{inside} -m pip install {' '.join(map(quoted, choice.requirements))}{index}"]


def files(plan: Plan) -> dict[str, str]:
    """One requirements file per build."""
    return {requirements_name(choice): requirements(choice) for choice in plan.choices}


def requirements_name(choice: Choice) -> str:
    """The file's name."""
    return f"requirements-torch-{extra(choice)}.txt"


def requirements(choice: Choice) -> str:
    """The file: nothing but torch's family, because its index line holds for the whole file."""
    lines = [
        f"# torch for {choice.variant}. Install this first, and what else you need from a file of its own:",
    ]
    if choice.index:
        lines += [
            "# the index below is the only one for this file, so that no other build can win.",
            f"--index-url {choice.index}",
        ]
    else:
        lines.append("# PyPI's own wheel is this build, so no other index is needed.")
    return "\n".join([*lines, *choice.requirements, ""])
