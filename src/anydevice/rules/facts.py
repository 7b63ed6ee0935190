"""What the rest of the project does that decides how one file may be rewritten."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_VISIBLE = re.compile(
    rb"""environ(?:\[|\.(?:setdefault|update)\(|\.__setitem__\()\s*\{?["']CUDA_VISIBLE_DEVICES|putenv\(["']CUDA_VISIBLE"""
)
_TORCH_IMPORT = re.compile(rb"(?m)^[ \t]*(?:import|from)[ \t]+torch\b")
_SET_DEVICE = re.compile(rb"\b(?:cuda\.set_device|accelerator\.set_device_ind?e?x|cuda\.device\()")
_FORK = re.compile(rb"\b(?:mp|multiprocessing)\.Process\(|from (?:torch\.)?multiprocessing import [^\n]*\bProcess\b")
_OWN_CUDA = re.compile(rb"(?m)^([ \t]+)def cuda\(")
_CLASS = re.compile(rb"(?m)^([ \t]*)class[ \t]+(\w+)[ \t]*(?:\(([^)]*)\))?[ \t]*:")
_SUPER_CUDA = re.compile(rb"super\([^)]*\)\.cuda\(|\w+\.cuda\(self\b")
_CONVERTED = re.compile(rb"(?i)\.type\(\s*(?:\w+\.)*(\w*(?:tensor|type)\w*)\s*[,)]")
_STAR_IMPORT = re.compile(rb"(?m)^[ \t]*from[ \t]+[\w.]*?(\w+)[ \t]+import[ \t]+\*")
_OWN_TO = re.compile(rb"(?m)^([ \t]+)def to\(")


@dataclass(frozen=True)
class Facts:
    """Facts of a whole project.

    `sets_visible_devices`: some code sets CUDA_VISIBLE_DEVICES while it runs, so nothing may look for a GPU at import
    (the driver reads the variable once). `sets_device`: a current device other than 0 may be in force.
    `forks`: processes are forked beside code for CUDA, which a child cannot use once its parent has asked for a GPU.
    `cuda_classes`: classes that are no modules and have a `cuda` method of their own, but no `to`.
    `converting_types`: names that a file gives to `.type(...)` but does not define, so that they must stay types.
    `star_imported`: last names of modules whose names others import with `*`, so that new ones must be private.
    """

    sets_visible_devices: bool = False
    sets_device: bool = False
    forks: bool = False
    cuda_classes: frozenset[str] = frozenset()
    converting_types: frozenset[str] = frozenset()
    star_imported: frozenset[str] = frozenset()

    def __or__(self, other: Facts) -> Facts:
        return Facts(
            self.sets_visible_devices or other.sets_visible_devices,
            self.sets_device or other.sets_device,
            self.forks or other.forks,
            self.cuda_classes | other.cuda_classes,
            self.converting_types | other.converting_types,
            self.star_imported | other.star_imported,
        )

    @property
    def must_ask_late(self) -> bool:
        """Whether no file may look for a GPU while it is imported."""
        return self.sets_visible_devices or self.forks


NO_FACTS = Facts()


def of_source(data: bytes) -> Facts:
    """The facts that one file contributes; text search, no parse."""
    return Facts(
        sets_visible_devices=b"CUDA_VISIBLE_DEVICES" in data and _sets_visible_devices_late(data),
        sets_device=(b"set_device" in data or b"cuda.device(" in data) and bool(_SET_DEVICE.search(data)),
        forks=b"Process(" in data and b"cuda" in data and b"spawn" not in data and bool(_FORK.search(data)),
        cuda_classes=frozenset(_own_cuda_classes(data)) if b"def cuda(" in data else frozenset(),
        converting_types=frozenset(_converting_types(data)) if b".type(" in data else frozenset(),
        star_imported=frozenset(m.decode() for m in _STAR_IMPORT.findall(data)) if b"import *" in data else frozenset(),
    )


def _sets_visible_devices_late(data: bytes) -> bool:
    """Whether CUDA_VISIBLE_DEVICES is set anywhere but at the top of the file, before torch is imported."""
    torch = _TORCH_IMPORT.search(data)
    for match in _VISIBLE.finditer(data):
        line = data[data.rfind(b"\n", 0, match.start()) + 1 : match.start()]
        at_top = not line[:1].isspace()
        if not at_top or (torch is not None and torch.start() < match.start()):
            return True
    return False


def _converting_types(data: bytes) -> Iterable[str]:
    for name in set(_CONVERTED.findall(data)):
        if not re.search(rb"\b" + re.escape(name) + rb"[ \t]*=[^=]", data):
            yield name.decode()


def _own_cuda_classes(data: bytes) -> Iterable[str]:
    classes = list(_CLASS.finditer(data))
    for index, match in enumerate(classes):
        end = classes[index + 1].start() if index + 1 < len(classes) else len(data)
        body = data[match.end() : end]
        bases = match.group(3) or b""
        is_module = b"Module" in bases or _SUPER_CUDA.search(body)
        if not is_module and _OWN_CUDA.search(body) and not _OWN_TO.search(body):
            yield match.group(2).decode()
