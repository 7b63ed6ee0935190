"""What came of a call, as text that can be kept and compared."""

from __future__ import annotations

from collections.abc import Callable

from databases.comparing import MISMATCH, tensors_in


def answer_text(call: Callable[[], object]) -> str:
    """The devices of the results (`cuda:0`), or the type and first line of the error."""
    try:
        found = tensors_in(call())
    except Exception as error:
        lines = str(error).splitlines()
        return f"{type(error).__name__}: {lines[0] if lines else ''}"
    return ", ".join(sorted({str(tensor.device) for tensor in found})) or "no tensor"


def alike(recorded: str, simulated: str, *, words: bool) -> bool:
    """Do two answers agree: in their words, or else in whether it ran, was refused for its devices, or failed?"""
    return recorded == simulated if words else _kind(recorded) == _kind(simulated)


def _kind(text: str) -> str:
    if ": " not in text:
        return text
    return "refused" if any(part in text for part in MISMATCH) else "failed"
