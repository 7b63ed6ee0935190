"""What a report says about the rules themselves, apart from how rules are written."""

from __future__ import annotations

import inspect
from dataclasses import dataclass


@dataclass(frozen=True)
class RuleInfo:
    """A rule for readers of a report: `summary` is one line, `why` the reasons in Markdown."""

    code: str
    name: str
    summary: str
    why: str = ""
    help_uri: str | None = None


def catalogue() -> dict[str, RuleInfo]:
    """Every rule of the catalogue by code. Imports them all."""
    from anydevice.rules.registry import all_rules

    return {
        rule.code: RuleInfo(rule.code, rule.name, rule.summary, inspect.cleandoc(type(rule).__doc__ or ""))
        for rule in all_rules()
    }
