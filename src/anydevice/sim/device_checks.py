"""Which operators PyTorch itself guards against tensors of several devices, and under which name it does.

The wrappers of CUDA kernels are generated from native_functions.yaml: unless an entry says `device_check: NoCheck`, every
positional tensor must be on one device, CPU scalars too (torchgen/dest/register_dispatch_key.py, `gen_device_check`). The
file is part of PyTorch's own package, so that what is read here is right for the version that runs.
"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path

_ENTRY = re.compile(r"^- func: (?P<name>\w+)(?:\.(?P<overload>\w+))?\(", re.MULTILINE)
_KEYS = re.compile(r"^    ([\w, ]+):", re.MULTILINE)


def method_of(name: str, overload: str) -> str | None:
    """The guard of `aten::name.overload`, less its device (`addmm`, `_index_select`); None where there is none."""
    return _guarded().get((name.removeprefix("aten::"), overload))


def has_kernel(name: str, overload: str, key: str) -> bool:
    """Has `aten::name.overload` a kernel for the dispatch key (`CUDA`)? True where nothing is known of it."""
    block = _entries().get((name.removeprefix("aten::"), overload))
    return block is None or key in _keys(block)


@cache
def _guarded() -> dict[tuple[str, str], str]:
    blocks = _entries()
    guarded = {}
    for (name, overload), block in blocks.items():
        delegate = re.search(r"^  structured_delegate: (\w+)(?:\.(\w+))?", block, re.MULTILINE)
        implementation = blocks.get((delegate[1], delegate[2] or ""), "") if delegate else block
        if "device_check: NoCheck" in block or "CUDA" not in _keys(implementation):
            continue
        out = "_out" if overload == "out" or overload.endswith("_out") else ""
        if delegate or "\n  structured: True" in block:
            guarded[name, overload] = f"{name}{out}" + (f"_{overload}" if overload else "")
        else:
            guarded[name, overload] = f"{overload}_{name}{out}"
    return guarded


@cache
def _entries() -> dict[tuple[str, str], str]:
    """The text of each entry, by its name and overload."""
    text = _source()
    entries = list(_ENTRY.finditer(text))
    ends = [*(entry.start() for entry in entries[1:]), len(text)]
    return {(e["name"], e["overload"] or ""): text[e.end() : end] for e, end in zip(entries, ends, strict=False)}


def _keys(block: str) -> set[str]:
    """The dispatch keys that an entry has kernels for."""
    dispatch = re.split(r"^  \w", block.partition("\n  dispatch:\n")[2], flags=re.MULTILINE)[0]
    return {key.strip() for line in _KEYS.findall(dispatch) for key in line.split(",")}


def _source() -> str:
    spec = importlib.util.find_spec("torchgen")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder, "packaged", "ATen", "native", "native_functions.yaml")
        if path.exists():
            return path.read_text(encoding="utf-8")
    return ""
