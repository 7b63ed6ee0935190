"""May this build of this release run on that machine? Yes, with what is not known; or no, with the reason."""

from __future__ import annotations

from dataclasses import dataclass

from anydevice.doctor.plan.drivers import floor, packaged
from anydevice.doctor.plan.kernels import gfx_names, kernels
from anydevice.doctor.plan.published import Release
from anydevice.doctor.plan.target import Target, dotted, driver_text
from anydevice.doctor.plan.variant import family, index_url, newness

_NEW_GLIBC = (2, 28)  # what the newest wheels need; torch_matrix.json, summary.linux_x86_64_tag


@dataclass(frozen=True)
class Verdict:
    """`why_not` is None where the build will run; `unknown` lists what could not be checked."""

    why_not: str | None = None
    unknown: tuple[str, ...] = ()


def judge_release(release: Release, target: Target) -> str | None:
    """Why no build of this release can be installed there, whatever its variant; None where one can."""
    wheel = release.wheels.get(target.platform)
    if wheel is None:
        return f"has no wheel for {target.system} on {target.arch}"
    if target.python not in wheel.pythons:
        return f"has wheels for Python {', '.join(wheel.pythons)}, not for {target.python}"
    if target.glibc is not None and wheel.glibc is not None and target.glibc < wheel.glibc:
        return f"needs glibc {dotted(wheel.glibc)}, this machine has {dotted(target.glibc)}"
    return None


def judge(release: Release, variant: str, target: Target) -> Verdict:
    """The verdict on one build, the release itself being fit."""
    missing = _missing(release, variant, target)
    if missing is not None:
        return Verdict(missing)
    verdicts = [_glibc(release, variant, target)]
    by_family = {"cuda": _cuda, "rocm": _rocm, "xpu": _xpu}.get(family(variant))
    if by_family is not None:
        verdicts.append(by_family(release, variant, target))
    reasons = [verdict.why_not for verdict in reversed(verdicts) if verdict.why_not is not None]
    return Verdict(reasons[0] if reasons else None, tuple(line for verdict in verdicts for line in verdict.unknown))


def source_of(release: Release, variant: str, target: Target) -> str | None:
    """The index to install from; None where PyPI itself serves this very build."""
    on_index = release.listed is not None and variant in release.listed
    from_pypi = release.pypi_variant(target.platform) == variant
    # Windows and macOS wheels of PyPI are CPU builds, so there no index is needed.
    return None if from_pypi and (not on_index or target.system != "linux") else index_url(variant)


def is_published(release: Release, variant: str, target: Target) -> bool:
    """Whether the build is known to exist for that system."""
    return _missing(release, variant, target) is None


def _missing(release: Release, variant: str, target: Target) -> str | None:
    if release.pypi_variant(target.platform) == variant:
        return None
    kind = family(variant)
    if target.system == "macos" or (target.system == "windows" and kind == "rocm"):
        return f"{variant} builds are not made for {target.system}"
    if release.listed is None:
        return f"whether it was published for {variant} is not known"
    if variant in release.candidates:
        return f"{variant} is only in the build scripts of its candidate; whether it was published is not known"
    if variant not in release.listed:
        return f"is not built for {variant}"
    if target.arch == "aarch64" and kind in ("rocm", "xpu"):
        return f"{variant} builds are not made for aarch64"
    if kind == "cuda" and target.platform != "linux_x86_64" and kernels(release, variant, target.platform) is None:
        # The lists of an index do not tell systems apart; the lists of architectures do.
        return f"whether {variant} is built for {target.system} on {target.arch} is not known"
    return None


def _glibc(release: Release, variant: str, target: Target) -> Verdict:
    wheel = release.wheels.get(target.platform)
    if target.system != "linux" or wheel is None:
        return Verdict()
    if wheel.glibc is None:
        return Verdict(unknown=("which glibc the wheel needs",))
    if target.glibc is None:
        return Verdict(unknown=(f"glibc of the machine; the wheel needs {dotted(wheel.glibc)}",))
    if target.glibc >= _NEW_GLIBC or wheel.variant in (variant, None):
        return Verdict()
    # The wheels of 2.6 were built on two systems: the newer CUDA on the newer one (summary.linux_x86_64_tag and the
    # C++ ABI of 2.6.0+cu126, flash-attention #1644). Only PyPI's own wheel was looked into.
    why = f"which glibc {variant} needs is not known (PyPI's {wheel.variant} wheel needs {dotted(wheel.glibc)})"
    if family(variant) == family(wheel.variant) == "cuda" and newness(variant) > newness(wheel.variant):
        return Verdict(why)
    return Verdict(unknown=(why,))


def _cuda(release: Release, variant: str, target: Target) -> Verdict:
    unknown = []
    needed = floor(variant, target.system)
    if needed is None:
        return Verdict(f"the oldest driver for {variant} is not known")
    if target.driver is None:
        unknown.append(f"the NVIDIA driver; {variant} needs {driver_text(needed.driver)} or newer")
    elif target.driver < needed.driver:
        return Verdict(
            f"{variant} needs driver {driver_text(needed.driver)}, this machine has {driver_text(target.driver)}"
        )
    built = kernels(release, variant, target.platform)
    if target.capability is None:
        which = f"; this build has code for {built}" if built is not None else ""
        return Verdict(unknown=(*unknown, f"the compute capability of the GPU{which}"))
    gpu = dotted(target.capability)
    if built is None:
        return Verdict(f"for which GPUs {variant} was compiled is not known")
    if built.run_on(target.capability):
        return Verdict(unknown=tuple(unknown))
    toolkit = packaged(variant, target.system)
    if built.can_compile_for(target.capability):
        if target.driver is not None and toolkit is not None and target.driver >= toolkit:
            return Verdict(unknown=(*unknown, f"the speed of the first run: code for {gpu} is made from PTX then"))
        return Verdict(
            f"{variant} has only PTX for compute capability {gpu}, which needs a driver as new as its toolkit"
        )
    return Verdict(f"{variant} has no code for compute capability {gpu} (it has {built})")


def _rocm(release: Release, variant: str, target: Target) -> Verdict:
    names = gfx_names(variant)
    if target.gfx is None:
        which = f"; this index serves {', '.join(names)}" if names else ""
        return Verdict(unknown=(f"the architecture of the AMD GPU{which}",))
    if names is None:
        return Verdict(f"for which AMD GPUs {variant} was compiled is not known")
    return Verdict() if target.gfx in names else Verdict(f"{variant} has no code for {target.gfx}")


def _xpu(release: Release, variant: str, target: Target) -> Verdict:
    return Verdict(unknown=("whether the index holds this very release: its XPU builds were planned, not listed",))
