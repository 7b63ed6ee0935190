"""A world made real for a while: what is simulated now, and how it comes and goes."""

from __future__ import annotations

import importlib
import pkgutil
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from anydevice.patching import scripts
from anydevice.patching.patches import Patches
from anydevice.sim import overriding
from anydevice.sim.dispatch import Dispatcher
from anydevice.sim.errors import AcceleratorError, NotSimulated
from anydevice.sim.memory import Ledger
from anydevice.sim.place import CPU, interned
from anydevice.sim.plan import Plan
from anydevice.worlds import World, parse

# packages whose every module has an `install(patches, simulation)`
_PARTS = ("anydevice.sim.tensor_api", "anydevice.sim.backends", "anydevice.sim.processes", "anydevice.sim.parallel")

_stack: list[Simulation] = []


def current() -> Simulation:
    """The simulation that is active.

    Raises:
        RuntimeError: none is.
    """
    if not _stack:
        raise RuntimeError("no world is simulated; enter one with anydevice.sim.simulate(...)")
    return _stack[-1]


def active() -> Simulation | None:
    """The simulation that is active, if one is."""
    return _stack[-1] if _stack else None


class Simulation:
    """One simulated machine.

    Attributes:
        world: what it is.
        devices: its accelerators, as `torch.device`.
        ledgers: the memory of each of them.
        generators: what each of them draws random numbers from.
        lacks: dtypes that they cannot hold.
        active: it is installed now.
        initialised: a device has been used.
        forked: this is the child of a process that had used a device.
        observers: told of copies and synchronisations (see `anydevice.sim.traffic`).
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.devices = [interned(world.device_type, i) for i in range(world.count)] if world.device_type else []
        self.ledgers = {device: Ledger(device, world.memory, world.texts["out of memory"]) for device in self.devices}
        self.lacks = frozenset(getattr(torch, name) for name in world.missing_dtypes)
        self.generators: dict[torch.device, Any] = {}
        self.observers: list[Any] = []
        self.active = False
        self.initialised = False
        self.forked = False
        self.sync_debug_mode = 0
        self.dispatcher = Dispatcher(self)
        self._patches = Patches()
        self._local = threading.local()

    @property
    def current_index(self) -> int:
        """The index of the current device of this thread."""
        return getattr(self._local, "index", 0)

    @current_index.setter
    def current_index(self, index: int) -> None:
        self._local.index = index

    def resolve(self, device: torch.device | str | int) -> torch.device:
        """The very device that is meant, `cuda` being the current one.

        Raises:
            AssertionError: PyTorch would not be built for it on this machine.
            RuntimeError: the machine has no device of that index.
        """
        if isinstance(device, int):
            device = torch.device(self.world.device_type or "cuda", device)
        elif isinstance(device, str):
            device = torch.device(device)
        kind, index = device.type, device.index
        if kind == "cpu":
            return CPU
        if kind != self.world.device_type:
            if kind == "meta":
                return device
            raise self.not_built(kind)
        if index is None:
            index = self.current_index
        if index >= len(self.devices):
            raise self.invalid_ordinal(index)
        if self.forked:
            raise self.bad_fork()
        self.initialised = True
        return self.devices[index]

    def not_built(self, kind: str) -> Exception:
        """The error of a PyTorch that is not built for `kind` of device."""
        return AssertionError(f"Torch not compiled with {kind.upper()} enabled")

    def bad_fork(self) -> Exception:
        """The error of a child that was forked after its parent had used a device (`_lazy_init` of torch.cuda and torch.xpu)."""
        kind = (self.world.device_type or "").upper()
        return RuntimeError(
            f"Cannot re-initialize {kind} in forked subprocess. To use {kind} with multiprocessing, you must use the "
            "'spawn' start method"
        )

    def invalid_ordinal(self, index: int) -> Exception:
        """The error of asking for a device that the machine does not have."""
        return AcceleratorError(self.world.texts["invalid ordinal"].format(index=index, count=len(self.devices)))

    def lost(self) -> Exception:
        """The error of an operator in a child that cannot reach the device which its parent has used."""
        text = self.world.texts.get("initialization error")
        return self.bad_fork() if text is None else AcceleratorError(text)

    def check_dtype(self, device: torch.device, dtype: torch.dtype) -> None:
        """Raise what the device says of a dtype that it cannot hold."""
        if device.type != "cpu" and str(dtype).removeprefix("torch.") in self.world.missing_dtypes:
            name = str(dtype).removeprefix("torch.")
            raise TypeError(self.world.texts["missing dtype"].format(dtype=name))

    def draw(self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], home: torch.device | None) -> Any:
        """Run an operator that draws random numbers, from the generator of the device `home`."""
        from anydevice.sim.backends import random

        return random.draw(self, plan, args, kwargs, home)

    def copied(self, tensor: torch.Tensor, source: torch.device, target: torch.device, *, non_blocking: bool) -> None:
        """Tell the observers that `tensor` was copied between devices."""
        if self.observers and source is not target:
            for observer in self.observers:
                observer.copied(tensor, source, target, non_blocking=non_blocking)

    def created(self, tensor: torch.Tensor) -> None:
        """Tell the observers that a factory made `tensor` on the CPU."""
        for observer in self.observers:
            observer.created(tensor)

    def synchronised(self, device: torch.device, how: str, nbytes: int = 0) -> None:
        """Tell the observers that the host waited for `device`, and how many bytes it got for it."""
        if device.type == "cpu":
            return
        for observer in self.observers:
            observer.synchronised(device, how, nbytes)
        if self.sync_debug_mode and how != "synchronize":
            if self.sync_debug_mode == 2:
                raise RuntimeError("called a synchronizing CUDA operation")
            warnings.warn("called a synchronizing CUDA operation", stacklevel=3)

    def set_sync_debug_mode(self, mode: int | str) -> None:
        """`torch.cuda.set_sync_debug_mode`: 0 or "default" says nothing, 1 "warn"s, 2 is an "error"."""
        modes = {"default": 0, "warn": 1, "error": 2}
        if mode not in (*modes, *modes.values()):
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        self.sync_debug_mode = modes[mode] if isinstance(mode, str) else mode

    def install(self) -> None:
        """Make PyTorch answer as on the simulated machine."""
        try:
            self._patch()
        except BaseException:
            self._patches.restore()
            raise
        self.active = True
        self.dispatcher.__enter__()  # type: ignore[no-untyped-call]

    def _patch(self) -> None:
        self._patches.set(torch.UntypedStorage, "place", None)
        for name in _PARTS:
            package = importlib.import_module(name)
            for module in pkgutil.iter_modules(package.__path__):
                part = importlib.import_module(f"{name}.{module.name}")
                if hasattr(part, "install"):
                    part.install(self._patches, self)
        overriding.honour(self._patches)
        self._patches.spread()
        scripts.recognise(self._patches)

    def uninstall(self) -> None:
        """Give PyTorch back as it was."""
        self.active = False
        self.dispatcher.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self._patches.restore()


def enter(world: World) -> Simulation:
    """Simulate a world for the rest of the process."""
    simulation = Simulation(world)
    simulation.install()
    _stack.append(simulation)
    return simulation


@contextmanager
def simulate(world: str | World, *, memory: int | None = None) -> Iterator[Simulation]:
    """Run PyTorch as if on another machine, in the block.

    Args:
        world: `none`, `cuda`, `cuda:2` (two devices), `rocm`, `mps`, `xpu`, or a `World`.
        memory: bytes of each accelerator, where it is not what the world says.

    Raises:
        ValueError: no such world.
    """
    machine = parse(world) if isinstance(world, str) else world
    simulation = Simulation(machine if memory is None else machine.with_memory(memory))
    outer = _stack[-1] if _stack else None
    if outer is not None:
        outer.uninstall()
    try:
        simulation.install()
        _stack.append(simulation)
        try:
            yield simulation
        finally:
            _stack.pop()
            simulation.uninstall()
    finally:
        if outer is not None:
            outer.install()


__all__ = ["NotSimulated", "Simulation", "current", "simulate"]
