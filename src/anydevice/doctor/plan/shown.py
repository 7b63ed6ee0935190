"""A plan as text for people: the two environments beside each other, then why not newer, commands and files."""

from __future__ import annotations

from collections.abc import Iterator

from anydevice.doctor.plan.choose import Choice, Outcome, Rejected
from anydevice.doctor.plan.plan import Plan
from anydevice.doctor.plan.published import collected
from anydevice.doctor.plan.target import Target, dotted, driver_text
from anydevice.doctor.plan.writing import commands, files
from anydevice.doctor.plan.writing.words import split

_MANY = 12  # lines of reasons from which on equal ones are told together


def render(plan: Plan, *, with_files: bool = True) -> str:
    """The whole text."""
    lines = [f"machine: {describe(plan.target)}", ""]
    lines += _table(plan)
    for title, outcome in _columns(plan):
        lines += _why_not_newer(title, outcome)
    for note in plan.notes:
        lines += ["", f"note: {note}"]
    for choice in plan.choices:
        lines += ["", f"commands for {choice.variant}"]
        for tool, commanded in commands(plan, choice).items():
            lines += [f"  {tool}", *(f"    {line}" for line in commanded)]
    if with_files:
        for name, text in files(plan).items():
            lines += ["", f"file {name}", *(f"    {line}".rstrip() for line in text.splitlines())]
    lines += ["", f"facts as of {collected()}; newer releases are not known here"]
    return "\n".join([*lines, ""])


def describe(target: Target) -> str:
    """What is known of the machine, in one line."""
    parts = [f"{target.system} {target.arch}", f"Python {target.python}"]
    if target.system == "linux":
        parts.append(f"glibc {dotted(target.glibc)}" if target.glibc else "glibc unknown")
    if target.driver is not None:
        parts.append(f"NVIDIA driver {driver_text(target.driver)}")
    if target.capability is not None:
        parts.append(f"compute capability {dotted(target.capability)}")
    if target.gfx is not None:
        parts.append(f"AMD {target.gfx}")
    if target.xpu:
        parts.append("Intel GPU")
    if target.mps:
        parts.append("Apple GPU")
    elif target.seen == "cpu":
        parts.append("no accelerator")
    return ", ".join(parts)


def _columns(plan: Plan) -> list[tuple[str, Outcome]]:
    columns = [("cpu", plan.cpu)]
    if plan.accelerator is not None:
        chosen = plan.accelerator.choice
        columns.append((plan.wanted if chosen is None or plan.wanted == "mps" else chosen.variant, plan.accelerator))
    return columns


def _table(plan: Plan) -> list[str]:
    columns = _columns(plan)
    rows = [("", *(title for title, _ in columns))]
    for label in ("torch", "torchvision", "torchaudio", "index", "wheel", "unchecked"):
        rows.append((label, *(_cell(label, outcome.choice) for _, outcome in columns)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for title, outcome in columns:
        lines += [f"  unchecked for {title}: {line}" for line in (outcome.choice.unknown if outcome.choice else ())]
    return lines


def _cell(label: str, choice: Choice | None) -> str:
    if choice is None:
        return "none" if label == "torch" else "-"
    if label == "index":
        return choice.index or "PyPI"
    if label == "wheel":
        return f"{choice.megabytes} MB" if choice.megabytes is not None else "size unknown"
    if label == "unchecked":
        return f"{len(choice.unknown)}, below" if choice.unknown else "nothing"
    named = {name: spec.removeprefix("==") for name, spec in map(split, choice.requirements)}
    return named.get(label, "unknown")


def _why_not_newer(title: str, outcome: Outcome) -> Iterator[str]:
    if not outcome.rejected:
        return
    yield ""
    yield f"why nothing newer for {title}" if outcome.choice else f"why nothing for {title}"
    if len(outcome.rejected) <= _MANY:
        yield from (f"  {_name(rejected)}: {rejected.why}" for rejected in outcome.rejected)
        return
    alike: dict[tuple[str, str], list[Rejected]] = {}
    for rejected in outcome.rejected:
        alike.setdefault((rejected.variant or "", rejected.why), []).append(rejected)
    for (variant, why), group in alike.items():
        newest, oldest = group[0].torch, group[-1].torch
        span = newest if len(group) == 1 else f"{newest} to {oldest} ({len(group)} releases)"
        yield f"  {span}{' ' + variant if variant else ''}: {why}"


def _name(rejected: Rejected) -> str:
    return f"{rejected.torch}+{rejected.variant}" if rejected.variant else rejected.torch
