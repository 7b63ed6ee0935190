"""Spellings that all tools share: requirements on a command line, names of environments and extras."""

from __future__ import annotations

import re

from packaging.version import Version

from anydevice.doctor.plan.choose import Choice
from anydevice.doctor.plan.plan import Plan
from anydevice.doctor.plan.variant import family

_RENAMED = Version("2.11")


def quoted(requirement: str) -> str:
    """A requirement as a word for sh, cmd and PowerShell alike."""
    return f'"{requirement}"' if re.search(r"[<>!~*;, ]", requirement) else requirement


def extra(choice: Choice) -> str:
    """The name of an environment or extra: `cpu`, `cu126`, `rocm7-2`."""
    return re.sub(r"[._]+", "-", choice.variant)


def python_number(plan: Plan) -> str:
    """`3.13` of `3.13t`."""
    return plan.target.python.removesuffix("t")


def is_free_threaded(plan: Plan) -> bool:
    """Whether the build of Python without its global lock is asked for."""
    return plan.target.python.endswith("t")


def split(requirement: str) -> tuple[str, str]:
    """`torchaudio>=2.11.0` as name and specifier."""
    match = re.match(r"[\w.-]+", requirement)
    name = match[0] if match else requirement
    return name, requirement[len(name) :]


def compilers(choice: Choice) -> tuple[str, ...]:
    """Triton's packages that stand on PyTorch's index only, and so must be asked for where that index is explicit.

    Their names: uv's guide to PyTorch, astral-sh/uv@26a9dd4b2125 docs/guides/integration/pytorch.md, for 2.11 and up.
    """
    kind = family(choice.variant)
    if kind not in ("rocm", "xpu"):
        return ()
    if choice.release.version < _RENAMED:
        return (f"pytorch-triton-{kind}",)
    return ("pytorch-triton-rocm", "triton-rocm") if kind == "rocm" else ("triton-xpu",)
