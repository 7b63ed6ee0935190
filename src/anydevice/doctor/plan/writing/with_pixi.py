"""pixi: one environment per build in one pixi.toml, torch from PyTorch's index by way of PyPI dependencies."""

from __future__ import annotations

from anydevice.doctor.plan.choose import Choice
from anydevice.doctor.plan.plan import Plan
from anydevice.doctor.plan.variant import cuda_version
from anydevice.doctor.plan.writing.words import compilers, extra, python_number, split

TOOL = "pixi"
_PLATFORMS = {
    "linux_x86_64": "linux-64",
    "linux_aarch64": "linux-aarch64",
    "windows_x86_64": "win-64",
    "macos_arm64": "osx-arm64",
    "macos_x86_64": "osx-64",
}


def commands(plan: Plan, choice: Choice) -> list[str]:
    """The environment is chosen when it is used."""
    return [f'pixi run --environment {extra(choice)} python -c "import torch; print(torch.__version__)"']


def files(plan: Plan) -> dict[str, str]:
    """The pixi.toml."""
    names = [extra(choice) for choice in plan.choices]
    lines = [
        "[workspace]",
        'name = "your-project"',
        'channels = ["conda-forge"]',
        f'platforms = ["{_PLATFORMS.get(plan.target.platform, "linux-64")}"]',
        "",
        "[dependencies]",
        f'python = "{python_number(plan)}.*"',
        "",
        "[environments]",
        *(f'{name} = ["{name}"]' for name in names),
    ]
    for choice in plan.choices:
        lines += ["", *_feature(choice)]
    return {"pixi.toml": "\n".join([*lines, ""])}


def _feature(choice: Choice) -> list[str]:
    name, cuda = extra(choice), cuda_version(choice.variant)
    lines = [f"[feature.{name}.pypi-dependencies]"]
    for requirement in (*choice.requirements, *compilers(choice)):
        package, specifier = split(requirement)
        index = f', index = "{choice.index}"' if choice.index else ""
        lines.append(f'{package} = {{ version = "{specifier or "*"}"{index} }}')
    if cuda is not None:
        lines += ["", f"[feature.{name}.system-requirements]", f'cuda = "{cuda[0]}"']
    return lines
