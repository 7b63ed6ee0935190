"""A log in, explanations out."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import BinaryIO

from anydevice.doctor.explain.finding import Found, find
from anydevice.doctor.explain.machine import MENTIONS, Machine, MachineFacts, said
from anydevice.doctor.explain.particulars import particulars
from anydevice.doctor.explain.ranking import rank
from anydevice.doctor.explain.reading import blocks
from anydevice.doctor.facts.signatures import signatures

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_UNKNOWN = {
    "variant": "<cpu|cu126|cu130|...>",
    "extension": "<the extension>",
    "cuda": "<the version that torch.version.cuda prints>",
    "symbol": "<the symbol>",
    "python": "<a Python that the release has wheels for>",
    "package": "torch",
    "plain": "<version>",
}


@dataclass(frozen=True)
class Explanation:
    """One known error of a log."""

    id: str
    category: str
    line: int
    count: int
    message: str  # the line of the log
    reason: str  # for its rank
    cause: str
    seen: tuple[str, ...]  # what the log and the machine's facts say
    mend: str
    commands: tuple[str, ...]  # what stands in <> is not known
    avoid: str
    sources: tuple[str, ...]
    note: str | None


def explain_text(text: str, machine: MachineFacts | None = None) -> list[Explanation]:
    """Explain a message or a log that is at hand."""
    return explain(io.BytesIO(text.encode("utf-8", errors="replace")), machine)


def explain(stream: BinaryIO, machine: MachineFacts | None = None) -> list[Explanation]:
    """Explain a log, the likeliest cause first; nothing where nothing in it is known.

    Args:
        stream: the log; read once, in blocks.
        machine: what is known of the machine; what the log itself says comes before it.

    Raises:
        UnreadableError: where the log is compressed or binary.
    """
    known = signatures()
    found = find(blocks(stream), (*known, *MENTIONS))
    mentions = {one.signature.id: one for one in found if one.signature.category == "mention"}
    told: dict[str, str] = {}
    for mention in mentions.values():
        for name, value in mention.groups.items():
            told.setdefault(name, value)
    errors = [one for one in found if one.signature.id not in mentions]
    windows = "mention-platform" in mentions
    explanations = []
    for ranked in rank(errors):
        one = ranked.found
        groups = one.groups
        stated: dict[str, str] = {name: groups[name] for name in ("gpu", "capability", "sm") if name in groups}
        if one.signature.id == "gpu-no-kernels" and "torch" in groups:
            stated["torch"] = groups["torch"]
        facts = said({**_hardware(errors), **told, **stated}, windows=windows, here=machine)
        explanations.append(_explanation(one, ranked.reason, groups, facts))
    return explanations


def _hardware(errors: list[Found]) -> dict[str, str]:
    """What other messages of the log say of the GPU."""
    return {
        name: value
        for one in errors
        for name, value in one.groups.items()
        if name in ("gpu", "capability", "sm") and one.signature.category == "arch"
    }


def _explanation(one: Found, reason: str, groups: dict[str, str], machine: Machine) -> Explanation:
    signature = one.signature
    told = particulars(signature.id, {**groups, "shown": one.first.shown}, machine)
    values = {**_UNKNOWN, **told.values}
    commands = tuple(
        _PLACEHOLDER.sub(lambda match: values.get(match[1], f"<{match[1]}>"), command) for command in signature.commands
    )
    return Explanation(
        id=signature.id,
        category=signature.category,
        line=one.first.line,
        count=one.count,
        message=one.first.shown,
        reason=reason,
        cause=signature.cause,
        seen=tuple(told.seen),
        mend=signature.mend,
        commands=commands,
        avoid=signature.avoid,
        sources=signature.sources,
        note=signature.note,
    )
