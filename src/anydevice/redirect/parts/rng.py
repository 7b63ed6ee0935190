"""Random numbers: seeds, states and generators of CUDA are those of the device that is there."""

from __future__ import annotations

from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.redirect.redirection import Redirection

_Generator = torch.Generator


class _Type(type):
    redirection: Redirection

    def __call__(cls, device: Any = "cpu") -> torch.Generator:
        return _Generator(cls.redirection.send(device, "torch.Generator"))

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Generator)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _Generator)


def install(patches: Patches, redirection: Redirection) -> None:
    """Replace them."""
    stand_in = _Type("Generator", (), {"__module__": "torch"})
    stand_in.redirection = redirection
    patches.everywhere(torch, "Generator", stand_in)
    native = torch if redirection.kind == "cpu" else getattr(torch, redirection.kind)
    seed = torch.default_generator.manual_seed if redirection.kind == "cpu" else native.manual_seed

    def manual_seed(seed_: int) -> None:
        seed(int(seed_))

    def set_rng_state(new_state: torch.Tensor, device: Any = None) -> None:
        native.set_rng_state(new_state)

    def set_rng_state_all(new_states: Any) -> None:
        for state in list(new_states)[:1]:
            native.set_rng_state(state)

    answers = {
        "manual_seed": lambda seed: manual_seed(seed),
        "manual_seed_all": lambda seed: manual_seed(seed),
        "seed": lambda: native.seed() and None,
        "seed_all": lambda: native.seed() and None,
        "initial_seed": torch.initial_seed,
        "get_rng_state": lambda device=None: native.get_rng_state(),
        "get_rng_state_all": lambda: [native.get_rng_state()],
        "set_rng_state": set_rng_state,
        "set_rng_state_all": set_rng_state_all,
    }
    for owner in (torch.cuda, torch.cuda.random):
        patches.known(owner, answers)
