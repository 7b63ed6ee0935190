"""`get_device`: the device that this process should use, chosen by what can really be used, with the reason said."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Literal, TypeAlias, overload

import torch

from anydevice.runtime.backends import Backend, accelerators, backend_of
from anydevice.runtime.backends.backend import trial
from anydevice.runtime.choice import Candidate, Choice, DeviceUnavailable
from anydevice.runtime.ranks import local_rank

DeviceLike: TypeAlias = "str | int | torch.device"

_log = logging.getLogger("anydevice")
_said: set[str] = set()
_VARIABLE = "ANYDEVICE"


@overload
def get_device(
    prefer: DeviceLike | Sequence[str] | None = ...,
    *,
    prefer_gpu: bool = ...,
    min_free_memory: int | None = ...,
    run_kernel: bool | None = ...,
    explain: Literal[False] = ...,
) -> torch.device: ...
@overload
def get_device(
    prefer: DeviceLike | Sequence[str] | None = ...,
    *,
    prefer_gpu: bool = ...,
    min_free_memory: int | None = ...,
    run_kernel: bool | None = ...,
    explain: Literal[True],
) -> Choice: ...
def get_device(
    prefer: DeviceLike | Sequence[str] | None = None,
    *,
    prefer_gpu: bool = True,
    min_free_memory: int | None = None,
    run_kernel: bool | None = None,
    explain: bool = False,
) -> torch.device | Choice:
    """Choose the device of this process, and say why in one line of the log "anydevice".

    Without `prefer` it is the best accelerator that can be used, else the CPU. Under torchrun, Slurm and MPI it is the
    one of the local rank. The environment variable `ANYDEVICE` (`cpu`, `cuda:1`, or a list `cuda,mps,cpu`) stands
    above what the program asks for; `auto` is as if it were not set. CUDA is not started, so that children can still
    be forked.

    Args:
        prefer: a device (`"cuda"`, `"cuda:1"`, a `torch.device`), which must be usable, or several kinds, of which the
            first usable one is taken; `("cuda", "cpu")` falls back to the CPU.
        prefer_gpu: False chooses the CPU where nothing else is asked for.
        min_free_memory: bytes that must be free on it, as the driver sees them. Of several such devices the one with
            most is taken.
        run_kernel: True runs a small kernel on a candidate, which starts its driver; False never does; None does
            where the driver has been started already, and elsewhere goes by what the driver and the build say.
        explain: return a `Choice`, which has the device, the reason and what was considered.

    Raises:
        DeviceUnavailable: what was asked for, by `prefer` or by `ANYDEVICE`, cannot be used; or the local rank is
            larger than the number of devices.
        ValueError: `prefer` or `ANYDEVICE` names no device.
    """
    wanted, source = _wanted(prefer)
    if wanted is None:
        kinds = [*(backend.kind for backend in accelerators()), "cpu"] if prefer_gpu else ["cpu"]
        source = "" if prefer_gpu else "prefer_gpu is False"
    else:
        kinds = wanted
    considered: list[Candidate] = []
    for name in kinds:
        considered.append(_candidate(name, min_free_memory, run_kernel, keep=wanted is None and name == "cpu"))
        if considered[-1].device is not None:
            break
    chosen = considered[-1].device
    if chosen is None:
        objections = "; ".join(f"{candidate.kind}: {candidate.objection}" for candidate in considered)
        raise DeviceUnavailable(
            f"{source} asks for {' or '.join(kinds)}, which cannot be used: {objections}. "
            "Name another device, or let get_device() choose"
        )
    choice = Choice(chosen, _reason(considered, source), tuple(considered))
    _say(choice)
    return choice if explain else chosen


def normalised(device: DeviceLike | None = None) -> torch.device:
    """`device` as its tensors report it: with the current index where they carry one; `get_device()` for None.

    `torch.device("cuda") == torch.device("cuda:0")` is False, and tensors are on the latter.

    Raises:
        ValueError: `device` names no device of this PyTorch.
    """
    if device is None:
        return get_device()
    if isinstance(device, int):
        kinds = [backend.kind for backend in accelerators() if backend.count()]
        device = torch.device(kinds[0] if kinds else "cuda", device)
    elif isinstance(device, str):
        device = _parsed(device)
    if device.type in ("cpu", "meta"):
        return device if device.index is None else torch.device(device.type)
    if device.index is None:
        backend = backend_of(device.type)
        return torch.device(device.type, backend.current()) if backend.indexed else device
    return device


def _wanted(prefer: DeviceLike | Sequence[str] | None) -> tuple[list[str] | None, str]:
    said = os.environ.get(_VARIABLE, "").strip()
    if said and said.lower() != "auto":
        return [str(_parsed(part.strip())) for part in said.split(",")], f"{_VARIABLE}={said}"
    if prefer is None or prefer == "auto":
        return None, ""
    if isinstance(prefer, (str, int, torch.device)):
        device = normalised(prefer) if isinstance(prefer, int) else _parsed(str(prefer))
        return [str(device)], f"get_device({str(prefer)!r})"
    return [str(_parsed(part)) for part in prefer], f"get_device({list(prefer)!r})"


def _parsed(text: str) -> torch.device:
    kind, _, index = text.partition(":")
    if kind.isidentifier() and (not index or index.isdecimal()):
        try:
            return torch.device(text)
        except RuntimeError as error:
            if not _is_a_plugins(kind):
                raise ValueError(
                    f"'{text}' names no device of this PyTorch: {str(error).partition(chr(10))[0]}"
                ) from None
            raise DeviceUnavailable(
                f"'{text}': PyTorch knows this device once its package is imported (torch_{kind}), and it is not"
            ) from None
    raise ValueError(f"'{text}' names no device; write for instance 'cuda', 'cuda:1', 'mps', 'xpu' or 'cpu'")


def _is_a_plugins(kind: str) -> bool:
    return kind in {backend.kind for backend in accelerators()} and not backend_of(kind).built()


def _candidate(name: str, min_free: int | None, run_kernel: bool | None, *, keep: bool) -> Candidate:
    """Look at one kind of device, or one device. `keep` is for the last resort, which is taken whatever its memory."""
    kind, _, number = name.partition(":")
    backend = backend_of(kind)
    built = backend.built()
    if not built:
        return Candidate(kind, False, 0, objection="this PyTorch is not built for it")
    count = backend.count()
    if count == 0:
        return Candidate(kind, True, 0, objection="this PyTorch is built for it, and no device is visible")
    if not backend.indexed:
        lack = None if keep else _too_small(backend, 0, min_free)
        return Candidate(kind, True, count, None if lack else torch.device(kind), lack or "")
    indices = [int(number)] if number else _indices(backend, count, min_free)
    objections: list[str] = []
    for index in indices:
        objection = _objection(backend, index, count, min_free, run_kernel)
        if objection is None:
            return Candidate(kind, True, count, torch.device(kind, index))
        objections.append(f"{kind}:{index}: {objection}" if count > 1 else objection)
    return Candidate(kind, True, count, objection="; ".join(objections))


def _indices(backend: Backend, count: int, min_free: int | None) -> list[int]:
    """The devices of a kind to look at, the one to prefer first."""
    rank = local_rank()
    if rank is not None and count > 1:
        if rank.number >= count:
            raise DeviceUnavailable(
                f"{rank.variable}={rank.number}, and this process sees {count} {backend.kind} devices; start at most "
                f"{count} processes on this machine, or give each the devices it should see"
            )
        return [rank.number]
    first = backend.current()
    order = [first, *(index for index in range(count) if index != first)]
    if min_free is None:
        return order

    def taken(index: int) -> int:
        memory = backend.memory(index)
        return -memory.free if memory is not None else 0

    return sorted(order, key=taken)


def _objection(backend: Backend, index: int, count: int, min_free: int | None, run_kernel: bool | None) -> str | None:
    if index >= count:
        return f"there is no device {index}; {count} {'is' if count == 1 else 'are'} visible"
    known = backend.unusable(index) or _too_small(backend, index, min_free)
    if known is not None or run_kernel is False or (run_kernel is None and not backend.started()):
        return known
    return trial(torch.device(backend.kind, index))


def _too_small(backend: Backend, index: int, min_free: int | None) -> str | None:
    if min_free is None:
        return None
    memory = backend.memory(index)
    if memory is None:
        return f"its free memory cannot be told, and {min_free:,} bytes are asked for"
    return None if memory.free >= min_free else f"{memory.free:,} bytes are free, and {min_free:,} are asked for"


def _reason(considered: list[Candidate], source: str) -> str:
    *passed, taken = considered
    assert taken.device is not None
    parts = [source] if source else []
    rank = local_rank()
    if taken.kind == "cpu":
        if not source:
            parts.append("no accelerator can be used")
    elif rank is not None and taken.visible > 1 and taken.device.index == rank.number:
        parts.append(f"{rank.variable}={rank.number} of {taken.visible} visible")
    elif not source:
        parts.append("the only one visible" if taken.visible == 1 else f"the first usable of {taken.visible} visible")
    notable = [candidate for candidate in passed if candidate.broken or (source and not candidate.broken)]
    parts += [f"{candidate.kind} passed over ({candidate.objection})" for candidate in notable]
    return "; ".join(parts)


def _say(choice: Choice) -> None:
    """Once for each line: a warning where a device is there and was passed over, else a word of information."""
    line = str(choice)
    if line not in _said:
        _said.add(line)
        level = logging.WARNING if any(candidate.broken for candidate in choice.considered) else logging.INFO
        _log.log(level, "%s", line)
