"""What a message says in numbers and names, put in words, and the commands that follow from it.

One function per kind of error, registered by the ids it serves; each gets what the message captured and the machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from anydevice.doctor.explain.builds import build_for, default_variant, newest_for_driver
from anydevice.doctor.explain.machine import Machine
from anydevice.doctor.facts import drivers, processors, releases
from anydevice.doctor.facts.versions import cuda_of, cuda_of_driver, dotted, number


@dataclass
class Particulars:
    """What was seen, and values for the commands' placeholders."""

    seen: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)


Teller = Callable[[dict[str, str], Machine], Particulars]
_TELLERS: dict[str, Teller] = {}

_OPERANDS = {"60": "'<', so it is an HTML page", "118": "'v', so it is a Git LFS pointer", "123": "'{', so it is JSON"}
_KEYS = {
    "v": "a Git LFS pointer",
    "<": "an HTML page",
    "{": "JSON",
    "\\x1f": "a gzip file",
    "P": "a zip archive, as torch.save writes",
    "\\x0a": "a text that begins with an empty line",
}
_CODES = {
    "2": "out of memory", "3": "initialization error", "35": "the driver is too old for the wheel, or missing",
    "46": "the device is busy (exclusive mode)", "100": "no GPU is visible", "101": "a GPU index that is not there",
    "802": "Fabric Manager is not running", "803": "driver and libcuda differ",
    "804": "a compat libcuda on an unsupported GPU",
    "999": "unknown error at start",
}  # fmt: skip


_EXTENSIONS = re.compile(
    r"(flash_attn|xformers|torchvision|torchaudio|torch_scatter|torch_sparse|detectron2|mmcv|vllm|causal_conv1d"
    r"|mamba_ssm|selective_scan|exllama\w{0,20}|awq\w{0,20}|auto_gptq\w{0,20})"
)


def particulars(identity: str, groups: dict[str, str], machine: Machine) -> Particulars:
    """What the message with this id says, beyond its being there."""
    teller = _TELLERS.get(identity)
    told = teller(groups, machine) if teller else Particulars()
    if machine.torch:
        told.values.setdefault("torch", f"torch=={machine.torch}")
    told.values.setdefault("torch", "torch")
    for name, value in groups.items():
        told.values.setdefault(name, value)
    return told


def _tells(*ids: str) -> Callable[[Teller], Teller]:
    def register(teller: Teller) -> Teller:
        for one in ids:
            _TELLERS[one] = teller
        return teller

    return register


@_tells("driver-too-old", "driver-insufficient", "no-driver")
def _driver(groups: dict[str, str], machine: Machine) -> Particulars:
    told = Particulars()
    cuda = None
    if groups.get("level", "").isdigit() and int(groups["level"]) >= 1000:
        cuda = cuda_of_driver(int(groups["level"]))
        told.seen.append(f"driver level {groups['level']} is CUDA {dotted(cuda)}")
    elif machine.cuda:
        cuda = number(machine.cuda)
        told.seen.append(f"the driver knows CUDA {machine.cuda}")
    if machine.driver:
        told.seen.append(f"driver {machine.driver}")
    if machine.variant and cuda_of(machine.variant):
        system: drivers.System = "windows" if machine.platform == "windows_x86_64" else "linux"
        wanted = drivers.floor(machine.variant, system)
        name = f"torch {machine.torch}+{machine.variant}" if machine.torch else machine.variant
        told.seen.append(f"{name} needs driver {wanted or 'unknown'} or newer")
    found = newest_for_driver(cuda[0]) if cuda else None
    if found:
        told.seen.append(f"the newest build for CUDA {cuda[0] if cuda else ''}.x is torch {found[0]} in {found[1]}")
        told.values.update(torch=f"torch=={found[0]}", variant=found[1])
    return told


@_tells("sm-not-compatible", "gpu-too-old", "gpu-no-kernels", "no-kernel-image")
def _architecture(groups: dict[str, str], machine: Machine) -> Particulars:
    told = Particulars()
    if machine.capability is None:
        return told
    dotted_capability = dotted(machine.capability)
    told.seen.append(f"the GPU{f' ({machine.gpu})' if machine.gpu else ''} has compute capability {dotted_capability}")
    if groups.get("has"):
        told.seen.append(f"this build has {groups['has']}")
    elif machine.torch and machine.variant:
        compiled = processors.compiled_for(machine.torch, machine.variant, machine.platform or "linux_x86_64")
        if compiled and compiled.sm:
            told.seen.append(
                f"torch {machine.torch}+{machine.variant} has {' '.join(f'sm_{sm}' for sm in compiled.sm)}"
            )
    found = build_for(machine.capability, machine.platform or "linux_x86_64")
    if found:
        told.seen.append(f"the newest known build that runs on it is torch {found[0]} in {found[1]}")
        told.values.update(torch=f"torch=={found[0]}", variant=found[1])
    else:
        told.seen.append("no known build of torch runs on it")
    return told


@_tells("no-cuda-build", "cpu-setdevice")
def _cpu_build(_groups: dict[str, str], machine: Machine) -> Particulars:
    told = Particulars()
    if machine.torch:
        told.seen.append(f"torch {machine.torch}{f'+{machine.variant}' if machine.variant else ''} is installed")
    found = newest_for_driver(int(machine.cuda.split(".")[0])) if machine.cuda else None
    if machine.capability:
        found = build_for(machine.capability, machine.platform or "linux_x86_64") or found
    if found:
        told.values["variant"] = found[1]
    return told


@_tells(
    "lib-cudnn-missing",
    "lib-cuda-missing",
    "lib-cudart-missing",
    "lib-preload-not-found",
    "nms-missing",
    "tv-could-not-load",
)
def _library(groups: dict[str, str], machine: Machine) -> Particulars:
    told = Particulars()
    library = groups.get("lib", "")
    if library:
        told.seen.append(f"what is missing or did not load is {library}")
    major = groups.get("major")
    if major and ("cudart" in library or "cublas" in library):
        told.seen.append(f"what asks for it was built for CUDA {major[:2]}")
    if machine.variant:
        told.seen.append(f"torch is the {machine.variant} build")
        told.values["variant"] = machine.variant
    elif machine.torch and (release := releases.release(machine.torch)):
        variant = default_variant(release, machine.platform or "linux_x86_64")
        if variant:
            told.values["variant"] = variant
    return told


@_tells("abi-cxx11")
def _cxx11(groups: dict[str, str], machine: Machine) -> Particulars:
    told = _extension(groups, machine)
    new = "__cxx11" in groups.get("symbol", "")
    told.seen.insert(
        0, f"the extension was built with the {'new (cxx11abiTRUE)' if new else 'old (cxx11abiFALSE)'} C++ ABI"
    )
    return told


@_tells("abi-setdevice", "abi-generic")
def _extension(groups: dict[str, str], machine: Machine) -> Particulars:
    told = Particulars()
    shown = groups.get("shown", "")
    name = _EXTENSIONS.search(shown)
    if name:
        extension = {"flash_attn": "flash-attn", "selective_scan": "mamba-ssm"}.get(name[1], name[1].replace("_", "-"))
        told.values["extension"] = extension
        told.seen.append(f"the extension is {extension}")
    if machine.torch:
        told.seen.append(f"torch is {machine.torch}{f'+{machine.variant}' if machine.variant else ''}")
    return told


@_tells("nvjitlink")
def _nvjitlink(groups: dict[str, str], _machine: Machine) -> Particulars:
    wanted = groups.get("wanted", "").replace("_", ".")
    return Particulars([f"CUDA {wanted}'s or a newer {groups.get('lib') or 'library'} is wanted"] if wanted else [])


@_tells("glibc", "glibcxx")
def _c_library(groups: dict[str, str], _machine: Machine) -> Particulars:
    return Particulars([f"{groups['wanted']} is wanted and the system's library does not have it"])


@_tells("getdevicecount")
def _code(groups: dict[str, str], _machine: Machine) -> Particulars:
    meaning = _CODES.get(groups.get("code", ""))
    return Particulars([f"error {groups['code']}: {meaning}"] if meaning else [])


@_tells("weights-only-operand", "invalid-load-key")
def _no_checkpoint(groups: dict[str, str], _machine: Machine) -> Particulars:
    operand, key = groups.get("operand"), groups.get("key")
    if operand:
        return Particulars([f"the file begins with {_OPERANDS.get(operand, f'byte {operand}')}"])
    return Particulars([f"the file begins like {_KEYS[key]}"] if key in _KEYS else [])


@_tells("cuda-mismatch")
def _toolkit(groups: dict[str, str], _machine: Machine) -> Particulars:
    if "torch" not in groups:
        return Particulars()
    return Particulars(
        [f"nvcc is CUDA {groups.get('nvcc')}, torch was built with CUDA {groups['torch']}"], {"cuda": groups["torch"]}
    )


@_tells("uv-local-version")
def _local_version(groups: dict[str, str], _machine: Machine) -> Particulars:
    version = groups.get("version", "")
    return Particulars([f"{version} is only on PyTorch's own index"], {"plain": version.partition("+")[0]})


@_tells("uv-abi-tag", "pip-no-match")
def _no_wheel(groups: dict[str, str], machine: Machine) -> Particulars:
    told = Particulars()
    wanted = groups.get("version") or groups.get("wanted", "").partition("==")[2]
    release = releases.release(wanted) if wanted and groups.get("package", "torch") == "torch" else None
    if groups.get("tag"):
        told.seen.append(f"the Python is {groups['tag']}")
    wheel = release.wheels[machine.platform or "linux_x86_64"] if release else None
    if release and wheel:
        told.seen.append(
            f"torch {release.version} has wheels for Python {', '.join(wheel.pythons)} on {wheel.platform}"
        )
        told.values["python"] = wheel.pythons[-1]
    return told


@_tells(
    "dataloader-bus",
    "oom",
    "state-dict",
    "weights-only",
    "same-device",
    "same-device-new",
    "load-cuda-index",
    "nccl-timeout",
)
def _captured(groups: dict[str, str], _machine: Machine) -> Particulars:
    words = {
        "signal": "the worker got: {}", "wanted": "asked for {}", "free": "{} were free", "capacity": "the GPU has {}",
        "global": "the file holds {}", "one": "one is on {}", "other": "the other is on {}",
        "argument": "the argument is {}",
        "key": "{}", "model": "the model is {}", "index": "saved on device {}", "count": "here are {} devices",
        "op": "the operation is {}", "ms": "it ran for {} ms",
    }  # fmt: skip
    return Particulars([words[name].format(value) for name, value in groups.items() if name in words])
