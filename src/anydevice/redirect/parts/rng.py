"""Random numbers: seeds, states and generators of CUDA are those of the device that is there."""

from __future__ import annotations

from typing import Any

import torch

from anydevice.patching.patches import Patches
from anydevice.patching.stand_in import StandIn
from anydevice.redirect.redirection import Redirection

_Generator = torch.Generator


class _GeneratorType(StandIn):
    redirection: Redirection

    def __call__(cls, device: Any = "cpu") -> torch.Generator:
        return _Generator(cls.redirection.send(device, "torch.Generator"))


def install(patches: Patches, redirection: Redirection) -> None:
    """Replace them."""
    stand_in = _GeneratorType(_Generator)
    stand_in.redirection = redirection
    patches.everywhere(torch, "Generator", stand_in)
    native = torch if redirection.kind == "cpu" else getattr(torch, redirection.kind)
    begin = torch.default_generator.manual_seed if redirection.kind == "cpu" else native.manual_seed

    def manual_seed(seed: int) -> None:
        begin(int(seed))

    def set_rng_state(new_state: torch.Tensor, device: Any = None) -> None:
        native.set_rng_state(new_state)

    def set_rng_state_all(new_states: Any) -> None:
        for state in list(new_states)[:1]:
            native.set_rng_state(state)

    answers = {
        "manual_seed": manual_seed,
        "manual_seed_all": manual_seed,
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
