"""A rule as a page of Markdown, made from its class: the docs and `anydevice rules CODE` are the same text."""

from __future__ import annotations

import inspect

from anydevice.rules.rule import Rule


def page(rule: Rule, *, limit: int | None = None) -> str:
    """What the rule finds, why, what to write instead, and what it leaves alone; at most `limit` examples of each."""
    parts = [f"# {rule.name} ({rule.code})", f"{rule.summary}.", inspect.cleandoc(type(rule).__doc__ or "")]
    parts.append("## Examples")
    for example in rule.examples[:limit]:
        language = "python" if example.path.endswith(".py") else "text"
        where = "" if example.path == "example.py" else f" (`{example.path}`)"
        old = f" (for projects that support torch {example.torch})" if example.torch else ""
        parts.append(f"{example.id[:1].upper()}{example.id[1:]}{where}{old}:")
        parts.append(_block(language, example.before))
        if example.after is None:
            parts.append("A person decides; the finding says what is usual.")
        else:
            parts += ["becomes", _block(language, example.after)]
    if rule.leaves:
        parts.append("## Left alone")
        for leave in rule.leaves[:limit]:
            language = "python" if leave.path.endswith(".py") else "text"
            parts += [f"{leave.why[:1].upper()}{leave.why[1:]}:", _block(language, leave.source)]
    return "\n\n".join(parts) + "\n"


def _block(language: str, source: str) -> str:
    fence = "````" if "```" in source else "```"
    return f"{fence}{language}\n{source.rstrip()}\n{fence}"
