"""The facts: each row can be read, and says what its sources say."""

from __future__ import annotations

import subprocess
import sys
from datetime import date

import pytest

from anydevice.doctor import facts
from anydevice.doctor.facts import drivers, processors, releases
from anydevice.doctor.facts.versions import cuda_of, cuda_of_driver, local, number


def test_age_is_said_in_words() -> None:
    assert facts.collected() == date(2026, 11, 30)
    assert facts.age(date(2026, 12, 1)) == "1 day"
    assert facts.age(date(2026, 11, 1)) == "0 days"
    assert facts.age(date(2027, 5, 30)) == "6 months"
    assert facts.age(date(2029, 5, 30)) == "2 years"


@pytest.mark.parametrize(
    ("text", "expected"), [("2.5.1+cu124", (2, 5, 1)), ("0.4.1.post2", (0, 4, 1)), ("450.80.02", (450, 80, 2))]
)
def test_version_numbers(text: str, expected: tuple[int, ...]) -> None:
    assert number(text) == expected


def test_variants_name_their_cuda() -> None:
    assert cuda_of("cu126") == (12, 6)
    assert cuda_of("cu92") == (9, 2)
    assert cuda_of("rocm6.3") is None
    assert cuda_of_driver(11040) == (11, 4)
    assert local("2.5.1+cu124") == "cu124"
    assert local("2.5.1") is None


def test_releases_are_in_order_and_unique() -> None:
    versions = [number(one.version) for one in releases.releases()]
    assert versions == sorted(set(versions))
    assert len(versions) == 53
    assert releases.newest().version == "2.15.0"


def test_a_release_is_found_by_version_with_or_without_variant() -> None:
    found = releases.release("2.5.1+cu124")
    assert found is not None
    assert found.torchvision == "0.20.1"
    assert releases.release("9.9.9") is None
    assert releases.release("nightly") is None


@pytest.mark.parametrize(
    ("version", "platform", "variant"),
    [
        ("2.5.1", "linux_x86_64", "cu124"),
        ("2.5.1", "linux_aarch64", "cpu"),
        ("2.14.1", "linux_x86_64", "cu130"),
        ("2.15.0", "linux_x86_64", "cu132"),
        ("2.11.0", "windows_x86_64", "cpu"),
    ],
)
def test_default_wheels(version: str, platform: str, variant: str) -> None:
    release = releases.release(version)
    assert release is not None
    wheel = release.wheels[platform]
    assert wheel is not None
    assert wheel.variant == variant


@pytest.mark.parametrize(
    ("variant", "system", "expected"),
    [
        ("cu126", "linux", "525.60.13"),
        ("cu126", "windows", "528.33"),
        ("cu132", "linux", "580"),
        ("cu118", "linux", "450.80.02"),
        ("cu102", "linux", "440.33"),
        ("cu92", "windows", "397.44"),
        ("cpu", "linux", None),
        ("rocm6.3", "linux", None),
    ],
)
def test_driver_floors_are_those_of_the_cuda_major(variant: str, system: drivers.System, expected: str | None) -> None:
    assert drivers.floor(variant, system) == expected


def test_uv_knows_27_variants_newest_first() -> None:
    for system in ("linux", "windows"):
        thresholds = drivers.uv_thresholds(system)
        assert next(iter(thresholds)) == "cu132"
        assert len(thresholds) == 27
        assert "cu127" not in thresholds
    assert drivers.uv_thresholds("linux")["cu124"] == "525.60.13"


@pytest.mark.parametrize(
    ("torch", "variant", "platform", "capability", "runs"),
    [
        ("2.14.1", "cu130", "linux_x86_64", (6, 1), False),
        ("2.14.1", "cu126", "linux_x86_64", (6, 1), True),
        ("2.7.1", "cu126", "linux_x86_64", (12, 0), False),
        ("2.7.0", "cu128", "linux_x86_64", (12, 0), True),
        ("2.7.0", "cu128", "linux_x86_64", (7, 0), False),
        ("2.8.0", "cu128", "linux_x86_64", (7, 0), True),
        ("2.11.0", "cu128", "linux_x86_64", (7, 0), False),
        ("2.7.0", "cu128", "linux_x86_64", (13, 0), True),  # by its PTX for 12.0
        ("2.14.1", "cu130", "linux_x86_64", (8, 7), False),  # Orin is excluded from sm_80
        ("1.12.1", "cu102", "linux_x86_64", (8, 0), False),
        ("2.15.0", "cu126", "linux_x86_64", (8, 0), None),
    ],
)
def test_which_gpu_runs_which_build(
    torch: str, variant: str, platform: str, capability: tuple[int, int], runs: bool | None
) -> None:
    compiled = processors.compiled_for(torch, variant, platform)
    assert compiled is not None
    assert compiled.runs(capability) is runs


def test_an_unknown_build_is_unknown() -> None:
    assert processors.compiled_for("2.6.0", "cu999", "linux_x86_64") is None


def test_a_file_is_read_only_when_it_is_asked_for() -> None:
    code = (
        "import sys; from anydevice.doctor.facts import drivers, files; drivers.floor('cu126');"
        "assert files.read.cache_info().currsize == 1; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
