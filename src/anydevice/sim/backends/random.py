"""Random numbers: each device has a stream of its own, and a state of 16 bytes, seed and offset, as CUDA's has.

A draw seeds an ordinary CPU generator from both, and moves the offset on: so that the state alone determines what comes
next. At offset 0 the numbers are those of a CPU generator of the same seed.
"""

from __future__ import annotations

import struct
import threading
import weakref
from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.sim.place import CPU
from anydevice.sim.plan import Plan
from anydevice.sim.simulation import Simulation, active

_Base = torch._C.Generator
_STATE = struct.Struct("<Qq")
_STEP = 4  # CUDA kernels move the offset by multiples of 4 (ATen/cuda/CUDAGeneratorImpl.cpp)
_MASK = 2**64 - 1
_lock = threading.Lock()
# operators get a generator in a new Python object: by the address of what it holds the one of the program is found
_known: weakref.WeakValueDictionary[int, Generator] = weakref.WeakValueDictionary()


class _Kind(type(_Base)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Base)


class Generator(_Base, metaclass=_Kind):  # type: ignore[misc]
    """`torch.Generator`, on any device of the world."""

    _home: torch.device | None
    _seed: int
    _offset: int

    def __new__(cls, device: Any = "cpu") -> Generator:
        simulation = active()
        home = torch.device(device) if simulation is None else simulation.resolve(device)
        self: Generator = _Base.__new__(cls)
        self._home = None if home.type == "cpu" else home
        self._seed, self._offset = _Base.initial_seed(self), 0
        _known[self._cdata] = self
        return self

    def __init__(self, device: Any = "cpu") -> None:
        pass

    @property
    def device(self) -> torch.device:
        """Where it draws."""
        return CPU if self._home is None else self._home

    def manual_seed(self, seed: int) -> Generator:
        """Begin the stream of `seed`."""
        _Base.manual_seed(self, seed)
        self._seed, self._offset = seed & _MASK, 0
        return self

    def seed(self) -> int:
        """Begin a stream that nobody can foresee."""
        seed: int = _Base.seed(self)
        self._seed, self._offset = seed, 0
        return seed

    def initial_seed(self) -> int:
        """The seed of the stream."""
        return _Base.initial_seed(self) if self._home is None else self._seed

    def get_state(self) -> torch.Tensor:
        """Seed and offset in 16 bytes; the CPU's state where it is there."""
        if self._home is None:
            return _Base.get_state(self)
        return torch.frombuffer(bytearray(_STATE.pack(self._seed, self._offset)), dtype=torch.uint8)

    def set_state(self, new_state: torch.Tensor) -> Generator:
        """Continue where a state was taken."""
        if self._home is None:
            _Base.set_state(self, new_state)
            return self
        if not isinstance(new_state, torch.Tensor) or new_state.dtype != torch.uint8 or new_state.device.type != "cpu":
            raise TypeError("RNG state must be a torch.ByteTensor")
        if new_state.numel() not in (8, 16):  # before offsets were, a state was the seed alone
            raise RuntimeError("RNG state is wrong size")
        data = bytes(new_state.tolist()).ljust(16, b"\0")
        self._seed, self._offset = _STATE.unpack(data)
        return self

    def get_offset(self) -> int:
        """How far the stream has come."""
        return _Base.get_offset(self) if self._home is None else self._offset

    def set_offset(self, offset: int) -> None:
        """Go to a place in the stream; a multiple of 4."""
        if self._home is None:
            _Base.set_offset(self, offset)
        else:
            self._offset = offset

    def clone_state(self) -> Generator:
        """Another generator at the same place of the same stream."""
        return Generator(self.device).set_state(self.get_state())

    def graphsafe_get_state(self) -> Generator:
        """The generator itself: it holds its state."""
        return self

    def graphsafe_set_state(self, state: Generator) -> Generator:
        """Take over the state of another generator."""
        return self.set_state(state.get_state())

    def __reduce__(self) -> Any:
        return _restored, (str(self.device), self.get_state())

    def prepare(self) -> int:
        """The seed of the next draw; the offset moves on."""
        seed = (self._seed + self._offset * 0x9E3779B97F4A7C15) & _MASK
        self._offset += _STEP
        return seed


def _restored(device: str, state: torch.Tensor) -> Generator:
    return Generator(device).set_state(state)


def draw(sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], home: torch.device | None) -> Any:
    """Run an operator that draws, with the generator that the program gives, or that of the device.

    Raises:
        RuntimeError: the generator is of another kind of device (ATen/core/Generator.h, `check_generator`).
    """
    home = home or CPU
    given = kwargs.get("generator")
    if given is None:
        given = next((item for item in args if isinstance(item, _Base)), None)
    if given is None:
        return plan.func(*args, **kwargs) if home.type == "cpu" else _from_default(sim, plan, args, kwargs, home)
    known = _known.get(given._cdata)
    kind = "cpu" if known is None else known.device.type
    if kind != home.type:
        raise RuntimeError(f"Expected a '{home.type}' device type for generator but found '{kind}'")
    if known is not None and known.device.type != "cpu":
        _Base.manual_seed(known, known.prepare())
    return plan.func(*args, **kwargs)


def _from_default(
    sim: Simulation, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], home: torch.device
) -> Any:
    own = sim.generators[home]
    if "generator" in plan.names:
        _Base.manual_seed(own, own.prepare())
        return plan.func(*args, **{**kwargs, "generator": own})
    with _lock:  # the operator knows the CPU's default generator only: lend it
        shared = torch.default_generator
        state = shared.get_state()
        shared.manual_seed(own.prepare())
        try:
            return plan.func(*args, **kwargs)
        finally:
            shared.set_state(state)


def install(patches: Patches, simulation: Simulation) -> None:
    """Give every device its generator, seeded as the CPU's is, and let the modules of the back ends find it."""
    patches.everywhere(torch, "Generator", Generator)
    kind = simulation.world.device_type
    if not simulation.generators:
        seed = torch.initial_seed()
        simulation.generators.update({device: _made(device, seed) for device in simulation.devices})
    generators = tuple(simulation.generators.values())
    for name in ("cuda", "xpu"):
        patches.set(getattr(torch, name), "default_generators", generators if kind == name else ())
    if kind == "mps":
        patches.set(torch.mps, "_get_default_mps_generator", lambda: generators[0])


def _made(device: torch.device, seed: int) -> Generator:
    generator: Generator = _Base.__new__(Generator)
    generator._home = device
    _known[generator._cdata] = generator
    generator.manual_seed(seed)
    return generator
