"""A plot of traffic over time, as SVG: bytes in both directions per slice of time, and synchronisations below."""

from __future__ import annotations

from collections.abc import Sequence

from anydevice.sim.traffic.amounts import duration, size
from anydevice.sim.traffic.recorder import BETWEEN_DEVICES, SYNCHRONISATION, TO_DEVICE, TO_HOST, Event

SLICES = 120
WIDTH, LEFT, RIGHT = 960, 84, 16
TOP, BARS, GAP, TICKS, BOTTOM = 12, 180, 34, 44, 34
KINDS = {TO_DEVICE: "down", TO_HOST: "up", BETWEEN_DEVICES: "across"}


def plot(events: Sequence[Event], seconds: float) -> str:
    """The SVG element, without style: the page gives the classes `down`, `up`, `across`, `sync` their colours."""
    slices = _slices(events, seconds)
    inner = WIDTH - LEFT - RIGHT
    step = inner / SLICES
    height = TOP + BARS + GAP + TICKS + BOTTOM
    most = max((sum(part[kind] for kind in KINDS) for part in slices), default=0) or 1
    syncs = max((part[SYNCHRONISATION] for part in slices), default=0) or 1
    floor, ground = TOP + BARS, TOP + BARS + GAP + TICKS
    out = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Traffic over time">',
        *_axis(TOP, floor, size(most), "bytes"),
        *_axis(floor + GAP, ground, f"{syncs}", "waits"),
    ]
    for index, part in enumerate(slices):
        x, y = LEFT + index * step, float(floor)
        span = f"{duration(index * seconds / SLICES)} to {duration((index + 1) * seconds / SLICES)}"
        for kind, style in KINDS.items():
            if part[kind]:
                tall = BARS * part[kind] / most
                y -= tall
                out.append(_bar(style, x, y, step, tall, f"{size(part[kind])} {kind}, {span}"))
        if part[SYNCHRONISATION]:
            tall = TICKS * part[SYNCHRONISATION] / syncs
            title = f"{part[SYNCHRONISATION]} synchronisations, {span}"
            out.append(_bar("sync", x, ground - tall, step, tall, title))
    for share in (0, 0.25, 0.5, 0.75, 1):
        x = LEFT + share * inner
        anchor = "start" if share == 0 else "end" if share == 1 else "middle"
        out.append(f'<text x="{x:.1f}" y="{ground + 20}" text-anchor="{anchor}">{duration(share * seconds)}</text>')
    out.append("</svg>")
    return "\n".join(out)


def _slices(events: Sequence[Event], seconds: float) -> list[dict[str, int]]:
    slices = [{**dict.fromkeys(KINDS, 0), SYNCHRONISATION: 0} for _ in range(SLICES)]
    for event in events:
        part = slices[min(SLICES - 1, int(event.seconds / seconds * SLICES)) if seconds > 0 else 0]
        part[event.kind] += 1 if event.kind == SYNCHRONISATION else event.nbytes
    return slices


def _axis(top: float, bottom: float, most: str, unit: str) -> list[str]:
    return [
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>',
        f'<text x="{LEFT - 8}" y="{top + 10}" text-anchor="end">{most}</text>',
        f'<text x="{LEFT - 8}" y="{bottom}" text-anchor="end">0 {unit}</text>',
    ]


def _bar(style: str, x: float, y: float, width: float, height: float, title: str) -> str:
    return (
        f'<rect class="{style}" x="{x:.1f}" y="{y:.1f}" width="{max(1.0, width - 1):.1f}" '
        f'height="{max(1.0, height):.1f}"><title>{title}</title></rect>'
    )
