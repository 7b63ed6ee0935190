"""uv: `uv pip` for one environment, and a pyproject.toml with an extra and an explicit index per build."""

from __future__ import annotations

import json

from anydevice.doctor.plan.choose import Choice
from anydevice.doctor.plan.plan import Plan
from anydevice.doctor.plan.target import Target
from anydevice.doctor.plan.variant import family, index_url
from anydevice.doctor.plan.verdict import is_published
from anydevice.doctor.plan.writing.words import compilers, extra, python_number, quoted, split

TOOL = "uv"


def commands(plan: Plan, choice: Choice) -> list[str]:
    """An environment of its own; in a project, the pyproject.toml below and one `uv sync` instead."""
    folder = f".venv-{extra(choice)}"
    index = f" --index-url {choice.index}" if choice.index else ""
    return [
        f"uv venv --python {plan.target.python} {folder}",
        f"uv pip install --python {folder} {' '.join(map(quoted, choice.requirements))}{index}",
        f"uv sync --extra {extra(choice)}  # instead, with the pyproject.toml below",
    ]


def files(plan: Plan) -> dict[str, str]:
    """The pyproject.toml, whose extras exclude each other."""
    choices = plan.choices
    lines = [
        "[project]",
        'name = "your-project"',
        'version = "0.1.0"',
        f'requires-python = ">={python_number(plan)}"',
        "dependencies = []  # all but torch and its family",
        "",
        "[project.optional-dependencies]",
    ]
    for choice in choices:
        lines.append(f"{extra(choice)} = {json.dumps((*choice.requirements, *compilers(choice)))}")
    lines += _restrictions(plan)
    indexed = [(choice, index) for choice in choices if (index := _index(choice))]
    if indexed:
        lines += ["", "[tool.uv.sources]"]
        wanted = {choice: {split(r)[0] for r in (*choice.requirements, *compilers(choice))} for choice, _ in indexed}
        for name in dict.fromkeys(name for names in wanted.values() for name in sorted(names)):
            lines += [f"{name} = [", *(_source(choice) for choice, names in wanted.items() if name in names), "]"]
    for choice, index in indexed:
        lines += [
            "",
            "[[tool.uv.index]]",
            f'name = "pytorch-{extra(choice)}"',
            f'url = "{index}"',
            "explicit = true  # for the packages above only",
        ]
    return {"pyproject.toml": "\n".join([*lines, ""])}


def _index(choice: Choice) -> str | None:
    """The index for all systems that lock this project: a CPU wheel of PyPI is one on Windows and macOS only."""
    listed = choice.release.listed or ()
    return choice.index or (index_url("cpu") if choice.variant == "cpu" and "cpu" in listed else None)


def _restrictions(plan: Plan) -> list[str]:
    choices, lines = plan.choices, []
    if len(choices) > 1:
        both = ", ".join(f'{{ extra = "{extra(choice)}" }}' for choice in choices)
        lines.append(f"conflicts = [[{both}]]")
    if any(choice.variant == "cpu" and _index(choice) is None for choice in choices):
        word = {"windows": "win32", "macos": "darwin"}.get(plan.target.system, "linux")
        lines.append(f"environments = [\"sys_platform == '{word}'\"]  # on Linux, PyPI's wheel would be a CUDA build")
    return ["", "[tool.uv]", *lines] if lines else []


def _source(choice: Choice) -> str:
    if family(choice.variant) == "cpu":
        marker = "sys_platform != 'darwin'"  # PyPI's wheels for macOS are what the index would bring
    else:
        systems = [word for word, name in (("linux", "linux"), ("win32", "windows")) if _made_for(choice, name)]
        marker = " or ".join(f"sys_platform == '{word}'" for word in systems or ["linux"])
    return f'  {{ index = "pytorch-{extra(choice)}", extra = "{extra(choice)}", marker = "{marker}" }},'


def _made_for(choice: Choice, system: str) -> bool:
    return is_published(choice.release, choice.variant, Target(system, "x86_64", "3.12"))
