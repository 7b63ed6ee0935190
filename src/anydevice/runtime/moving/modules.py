"""Modules moved to a device, with the parameters that they share still shared."""

from __future__ import annotations

from collections import defaultdict

import torch


def moved_module(module: torch.nn.Module, target: torch.device, *, non_blocking: bool) -> torch.nn.Module:
    """The module, moved in place as `Module.to` does.

    On devices whose tensors cannot take the place of others (`meta`, those of plugins, XLA) `Module.to` makes new
    parameters, one for each place that a shared one had; they are made one again.
    """
    places: dict[int, list[tuple[torch.nn.Module, str]]] = defaultdict(list)
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None:
                places[id(parameter)].append((part, name))
    shared = [found for found in places.values() if len(found) > 1]
    module.to(target, non_blocking=non_blocking and target.type in ("cuda", "xpu"))
    for (first, name), *others in shared:
        for other, its_name in others:
            other._parameters[its_name] = first._parameters[name]
    return module
