"""The machine that this runs on, as a target: read from files of the kernel, with nvidia-smi for the GPU alone."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from anydevice.doctor.plan.target import Target, TargetError, compute_capability, numbers

_DRIVER = re.compile(r"Kernel Module\D{0,60}?(\d{3,4}(?:\.\d+){1,2})")
_GFX = re.compile(r"^gfx_target_version (\d{5,6})$", re.M)
_INTEL_GPU = re.compile(r"(?i)^0x8086$")
_PATIENCE = 5.0  # seconds; nvidia-smi can hang on a machine with a lost GPU


def system_of(name: str) -> str:
    """`linux`, `windows` or `macos`."""
    return {"darwin": "macos", "win32": "windows", "cygwin": "windows"}.get(name, "linux")


def arch_of(machine: str) -> str:
    """`x86_64`, or the name of ARM's 64 bits on this system."""
    name = machine.lower()
    if name in ("amd64", "x86_64", "x64"):
        return "x86_64"
    if name in ("arm64", "aarch64"):
        return "arm64" if sys.platform == "darwin" else "aarch64"
    return name or "unknown"


def this_machine(root: Path = Path("/")) -> Target:
    """What can be seen without importing torch. What cannot be seen stays None."""
    system = system_of(sys.platform)
    threads = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    driver = nvidia_driver(root) if system != "macos" else None
    return Target(
        system=system,
        arch=arch_of(platform.machine()),
        python=f"{sys.version_info.major}.{sys.version_info.minor}{threads}",
        glibc=glibc() if system == "linux" else None,
        driver=driver,
        capability=_lowest_capability() if driver is not None else None,
        gfx=amd_architecture(root) if system == "linux" and driver is None else None,
        xpu=system == "linux" and driver is None and _has_intel_gpu(root),
    )


def glibc() -> tuple[int, ...] | None:
    """Of the running process; None with musl or where it is not told."""
    try:
        told = os.confstr("CS_GNU_LIBC_VERSION") or ""
        return numbers(told.partition(" ")[2], "version of glibc")
    except (AttributeError, OSError, ValueError):
        return None


def nvidia_driver(root: Path) -> tuple[int, ...] | None:
    """The version of the loaded kernel module, or what nvidia-smi says."""
    for name, pattern in (("sys/module/nvidia/version", None), ("proc/driver/nvidia/version", _DRIVER)):
        text = _read(root / name)
        match = pattern.search(text) if pattern is not None else None
        found = text.strip() if pattern is None else match[1] if match else ""
        try:
            return numbers(found, "driver version")
        except TargetError:
            continue
    try:
        return numbers(_nvidia_smi("driver_version").partition("\n")[0], "driver version")
    except TargetError:
        return None


def amd_architecture(root: Path) -> str | None:
    """The lowest gfx name among the GPUs that the kernel driver lists."""
    nodes = sorted((root / "sys/class/kfd/kfd/topology/nodes").glob("*/properties"))
    found = sorted(int(match) for node in nodes for match in _GFX.findall(_read(node)))
    if not found:
        return None
    major, minor, step = found[0] // 10000, found[0] // 100 % 100, found[0] % 100
    return f"gfx{major}{minor:x}{step:x}"


def _lowest_capability() -> tuple[int, int] | None:
    found = []
    for line in _nvidia_smi("compute_cap").splitlines():
        try:
            found.append(compute_capability(line))
        except TargetError:
            continue
    return min(found, default=None)


def _nvidia_smi(query: str) -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    try:
        return subprocess.run(
            [program, f"--query-gpu={query}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _has_intel_gpu(root: Path) -> bool:
    """Whether Intel's GPU driver holds a card: i915 drives displays too, xe only what can compute."""
    for card in sorted((root / "sys/class/drm").glob("card[0-9]")):
        driver = card / "device/driver"
        if driver.is_symlink() and driver.readlink().name == "xe" and _INTEL_GPU.match(_read(card / "device/vendor")):
            return True
    return False


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")[:4096]
    except OSError:
        return ""
