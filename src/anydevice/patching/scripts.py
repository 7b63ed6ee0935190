"""TorchScript knows PyTorch's functions by their identity: those that a simulation puts in their place are made known too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch.jit._builtins

if TYPE_CHECKING:
    from anydevice.patching.patches import Patches


def recognise(patches: Patches) -> None:
    """Give what replaces a function the operator that TorchScript compiles the function to."""
    operators = torch.jit._builtins._get_builtin_table()
    for original, replacement in patches.replaced():
        operator = operators.get(id(original))
        if operator is not None:
            patches.item(operators, id(replacement), operator)
