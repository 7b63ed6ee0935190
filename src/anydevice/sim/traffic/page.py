"""The report as one self-contained HTML page: a sentence, a plot over time, and a table that sorts on a click."""

from __future__ import annotations

from html import escape
from importlib.resources import files

from anydevice.sim.traffic.amounts import duration, size
from anydevice.sim.traffic.plot import plot
from anydevice.sim.traffic.recorder import BETWEEN_DEVICES, SYNCHRONISATION, TO_DEVICE, TO_HOST
from anydevice.sim.traffic.summary import Row, Summary

HEADINGS = ("Line", "What", "How", "Count", "Per step", "Bytes", "Pinned", "Non-blocking", "Host waits", "Estimate")


def page(summary: Summary) -> str:
    """The whole page."""
    read = files(__package__).joinpath
    rows = "\n".join(_row(row) for row in summary.rows)
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8"><title>Device traffic</title>',
            f"<style>{read('page.css').read_text(encoding='utf-8')}</style></head><body>",
            f"<h1>Device traffic <small>world {escape(summary.world)}</small></h1>",
            f"<p>{_sentence(summary)}</p>",
            '<p class="legend"><i class="down"></i> to device <i class="up"></i> to host '
            '<i class="across"></i> between devices <i class="sync"></i> synchronisations</p>',
            plot(summary.events, summary.seconds),
            "<table><thead><tr>",
            *(f"<th><button>{heading}</button></th>" for heading in HEADINGS),
            f"</tr></thead><tbody>{rows}</tbody></table>",
            f"<script>{read('page.js').read_text(encoding='utf-8')}</script></body></html>",
            "",
        )
    )


def _sentence(summary: Summary) -> str:
    parts = []
    for kind in (TO_DEVICE, TO_HOST, BETWEEN_DEVICES):
        count, nbytes = summary.total(kind)
        parts.append(f"{count} copies {kind} ({size(nbytes)})")
    parts.append(f"{summary.total(SYNCHRONISATION)[0]} synchronisations")
    steps = f" in {summary.steps} steps" if summary.steps else ""
    text = (
        f"{', '.join(parts)}{steps}. On a bus of {size(summary.bus)}/s they would take about "
        f"{duration(summary.estimate)}; the simulated program ran for {duration(summary.seconds)} on the CPU."
    )
    if summary.dropped:
        text += f" {summary.dropped} later events are not shown."
    return escape(text)


def _row(row: Row) -> str:
    line = row.line
    where = "not in the program" if line is None else f"<b>{escape(str(line))}</b><code>{escape(line.text)}</code>"
    if row.fresh:
        where += f"<em>{row.fresh} created on the host and moved at once: create on the device instead</em>"
    cells = (
        (str(line), where),
        (row.kind, row.kind),
        (row.how, escape(row.how)),
        (row.count, f"{row.count}"),
        (row.per_step or 0, "" if row.per_step is None else f"{row.per_step:.3g}"),
        (row.nbytes, size(row.nbytes)),
        (row.pinned, f"{row.pinned}"),
        (row.non_blocking, f"{row.non_blocking}"),
        (row.waits, f"{row.waits}"),
        (row.seconds, duration(row.seconds)),
    )
    return "<tr>" + "".join(f'<td data-key="{escape(str(key))}">{text}</td>' for key, text in cells) + "</tr>"
