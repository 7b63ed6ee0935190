"""The build of torch that suits a driver or a GPU, as far as the facts go."""

from __future__ import annotations

from anydevice.doctor.facts import processors, releases
from anydevice.doctor.facts.processors import Capability
from anydevice.doctor.facts.releases import TorchRelease
from anydevice.doctor.facts.versions import cuda_of, number

Build = tuple[str, str]  # version, variant


def newest_for_driver(cuda_major: int) -> Build | None:
    """The newest release with a build of this CUDA major or an older one, and the newest such build."""
    for release in reversed(releases.releases()):
        fitting = [
            (cuda, variant)
            for variant in release.index_variants or ()
            if (cuda := cuda_of(variant)) is not None and cuda[0] <= cuda_major
        ]
        if fitting:
            return release.version, max(fitting)[1]
    return None


def build_for(capability: Capability, platform: str) -> Build | None:
    """The newest release with a build that is known to run on the GPU, and the newest such build."""
    for release in reversed(releases.releases()):
        variants = [variant for variant in release.index_variants or () if cuda_of(variant) is not None]
        for variant in sorted(variants, key=lambda one: cuda_of(one) or (), reverse=True):
            compiled = processors.compiled_for(release.version, variant, platform)
            if compiled and compiled.runs(capability):
                return release.version, variant
    return None


def default_variant(release: TorchRelease, platform: str) -> str | None:
    """The variant that PyPI serves for the platform; None where it has none, or serves no variant of the index."""
    wheel = release.wheels.get(platform)
    if wheel is None or number(release.version) < (1, 8):
        return None
    return wheel.variant.partition("+")[0]
