"""Whether a build holds code for a GPU: compute capability against the compiled architectures, gfx names for ROCm."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from anydevice.doctor.plan.published import Release, facts

_ARCH = re.compile(r"(?:sm|compute)_(\d{1,3})[af]?")
_TRUST = ("binary", "release-matrix", "build-script")  # the best first
_EXCEPT = re.compile(r"\d+\.\d+")


@dataclass(frozen=True)
class Kernels:
    """The architectures that a build was compiled for. `sm` holds (major, minor)."""

    sm: tuple[tuple[int, int], ...]
    ptx: tuple[tuple[int, int], ...]
    source: str

    def run_on(self, capability: tuple[int, int]) -> bool:
        """Whether compiled code runs there: never across majors, and never on a lower minor."""
        return any(_runs(arch, capability) for arch in self.sm)

    def can_compile_for(self, capability: tuple[int, int]) -> bool:
        """Whether the driver can make code for it from PTX, if it is as new as the toolkit."""
        return any(arch <= capability for arch in self.ptx)

    def __str__(self) -> str:
        """`7.5, 8.0, 8.6`."""
        return ", ".join(f"{major}.{minor}" for major, minor in sorted(self.sm))


def kernels(release: Release, variant: str, platform: str) -> Kernels | None:
    """What the build was compiled for; None where nobody has looked."""
    rows = _rows().get((variant, platform.replace("_", "-", 1)), {})
    return rows.get(str(release.version)) or rows.get(release.minor)


def gfx_names(variant: str) -> tuple[str, ...] | None:
    """The AMD architectures that a ROCm index serves; None where that is unknown."""
    for row in facts("sm_support")["rocm_gfx"]:
        if row["variant"] == variant:
            return tuple(row["gfx"])
    return None


@cache
def _rows() -> dict[tuple[str, str], dict[str, Kernels]]:
    found: dict[tuple[str, str], dict[str, Kernels]] = {}
    for trust in reversed(_TRUST):
        for row in facts("sm_support")["rows"]:
            if row["sm"] is None or not (row["evidence"] or "").startswith(trust):
                continue
            entry = Kernels(_archs(row["sm"]), _archs(row["ptx"] or []), row["source"])
            found.setdefault((row["variant"], row["platform"]), {})[row["torch"]] = entry
    return found


def _archs(names: list[str]) -> tuple[tuple[int, int], ...]:
    matches = (_ARCH.fullmatch(name) for name in names)
    return tuple((int(match[1]) // 10, int(match[1]) % 10) for match in matches if match)


def _runs(arch: tuple[int, int], capability: tuple[int, int]) -> bool:
    rule = facts("sm_support")["rules"]["device_requirement"].get(f"{arch[0]}{arch[1]}")
    if rule is not None and rule.startswith("only "):
        return f"{capability[0]}.{capability[1]}" in rule.removeprefix("only ").split("/")
    if (
        rule is not None
        and "except" in rule
        and f"{capability[0]}.{capability[1]}" in _EXCEPT.findall(rule.partition("except")[2])
    ):
        return arch == capability
    return arch[0] == capability[0] and arch[1] <= capability[1]
