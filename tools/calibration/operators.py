"""Each operator of `op_db`: all its tensors on the device, and each of them in turn on the CPU."""

from __future__ import annotations

from typing import Any

import torch

from calibration.answering import answer_text
from databases import operators
from databases.comparing import copied, copied_with_stray

SAMPLES = 2  # of each operator, so that all of them take a few minutes


def names(count: int) -> list[str]:
    """The operators; those of the host alone have nothing to say here."""
    return [name for name, info in operators.database().items() if info.name not in operators.ON_HOST]


def answers(name: str, device: str) -> list[str]:
    """For each sample: all on the device, then each tensor in turn on the CPU."""
    info = operators.database()[name]
    out = []
    for sample in operators.samples_of(info, operators.dtype_for(info), SAMPLES):
        given = (sample.input, sample.args, sample.kwargs)
        out.append(_answer(info, copied(given, device)))
        out += [_answer(info, copied_with_stray(given, device, stray)) for stray in operators.strays(sample)]
    return out


def _answer(info: Any, given: Any) -> str:
    with torch.no_grad():
        return answer_text(lambda: operators.function_of(info)(given[0], *given[1], **given[2]))
