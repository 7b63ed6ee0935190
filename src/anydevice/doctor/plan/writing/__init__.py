"""Plans as commands and files, one module per tool: each has `TOOL`, `commands(plan, choice)` and `files(plan)`.

A new tool is a new module here and its name in `_TOOLS`.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from anydevice.doctor.plan.choose import Choice
from anydevice.doctor.plan.plan import Plan

_TOOLS = ("pip", "uv", "conda", "pixi")


def tools() -> tuple[ModuleType, ...]:
    """The modules, in the order in which their answers are shown."""
    return tuple(importlib.import_module(f"{__name__}.with_{name}") for name in _TOOLS)


def commands(plan: Plan, choice: Choice) -> dict[str, list[str]]:
    """By tool, the commands that make the environment of one choice."""
    return {tool.TOOL: tool.commands(plan, choice) for tool in tools()}


def files(plan: Plan) -> dict[str, str]:
    """By name, the text of every file that the commands use."""
    return {name: text for tool in tools() for name, text in tool.files(plan).items()} if plan.choices else {}
