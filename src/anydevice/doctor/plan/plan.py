"""The whole plan for a machine: a CPU and an accelerator environment beside each other."""

from __future__ import annotations

from dataclasses import dataclass

from anydevice.doctor.plan.choose import FAMILIES, Choice, Outcome, can_run, choose, matching
from anydevice.doctor.plan.published import releases
from anydevice.doctor.plan.target import Target, TargetError
from anydevice.doctor.plan.uv_order import uv_tries
from anydevice.doctor.plan.variant import family, is_variant
from anydevice.doctor.plan.verdict import is_published, judge


@dataclass(frozen=True)
class Plan:
    """What to install for `target`. `accelerator` is None where none was seen or asked for."""

    target: Target
    wanted: str
    cpu: Outcome
    accelerator: Outcome | None
    notes: tuple[str, ...]

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The builds of the plan, CPU first; where one wheel serves both, it stands once."""
        both = (self.cpu.choice, self.accelerator.choice if self.accelerator else None)
        found = tuple(choice for choice in both if choice is not None)
        return found[:1] if len({(c.release.version, c.variant) for c in found}) == 1 else found


def make_plan(target: Target, gpu: str = "auto", torch: str | None = None, *, same_torch: bool = False) -> Plan:
    """The plan, or TargetError where `gpu` or `torch` name nothing that exists."""
    wanted = _wanted(target, gpu)
    among = matching(torch)
    if same_torch and wanted != "cpu":
        among = tuple(r for r in among if can_run(r, "cpu", target) and can_run(r, wanted, target)) or among
    cpu = choose(target, "cpu", among)
    accelerator = choose(target, wanted, among) if wanted != "cpu" else None
    return Plan(target, wanted, cpu, accelerator, tuple(_notes(target, wanted, cpu, accelerator)))


def _wanted(target: Target, gpu: str) -> str:
    if gpu == "auto":
        return target.seen
    if gpu in FAMILIES:
        if gpu == "mps" and not target.mps:
            raise TargetError(f"no wheel for {target.system} on {target.arch} can use MPS; it needs macOS on arm64")
        return gpu
    named = {variant for release in releases() for variant in (*(release.listed or ()), *release.candidates)}
    if not is_variant(gpu) or gpu not in named:
        raise TargetError(f"'{gpu[:40]}' is no build of PyTorch; there are {', '.join(FAMILIES)}, cu126, rocm7.2 ...")
    return gpu


def _notes(target: Target, wanted: str, cpu: Outcome, accelerator: Outcome | None) -> list[str]:
    notes = []
    chosen = accelerator.choice if accelerator is not None else None
    if accelerator is not None and chosen is None:
        notes.append(f"no {wanted} build is known to run here: only the CPU environment is planned")
    if chosen is not None and wanted == "mps":
        notes.append("one wheel serves CPU and MPS: a single environment is enough")
    elif chosen is not None and cpu.choice is not None and chosen.release != cpu.choice.release:
        notes.append("the two environments differ in torch; --same-torch takes one release for both")
    if chosen is None and wanted == "cpu" and target.system == "linux" and cpu.choice is not None:
        served = cpu.choice.release.pypi_variant(target.platform)
        if served not in (None, "cpu"):
            notes.append(f"a plain 'pip install torch' would bring PyPI's {served} build here, which is of no use")
    if chosen is not None and family(chosen.variant) in ("cuda", "rocm"):
        notes.append(_about_uv(target, chosen))
    if cpu.choice is not None and "torchaudio>=" in " ".join(cpu.choice.requirements):
        notes.append("torchaudio is no longer released per torch; 2.11 and newer take any torch from 2.11 on")
    return notes


def _about_uv(target: Target, chosen: Choice) -> str:
    """Whether `uv pip install --torch-backend=auto` with this pin comes to the same index, and if not, why."""
    tries = uv_tries(target)
    agrees = f"'uv pip install --torch-backend=auto torch=={chosen.release.version}'"
    if chosen.variant not in tries:
        return f"uv's --torch-backend=auto would not look at {chosen.variant} here; it tries {', '.join(tries[:3])} ..."
    earlier = tries[: tries.index(chosen.variant)]
    taken = [variant for variant in earlier if is_published(chosen.release, variant, target)]
    if taken:
        why = judge(chosen.release, taken[0], target).why_not
        return f"{agrees} would take {taken[0]}, but {why}: name the index"
    if not earlier:
        return f"{agrees} takes the same index, {chosen.variant}"
    return (
        f"{agrees} takes the same index, {chosen.variant}: of {', '.join(earlier)}, which it tries first, "
        f"none is known to hold this release; without the pin uv would stay there with an older torch"
    )
