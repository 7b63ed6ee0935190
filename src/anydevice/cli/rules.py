"""`anydevice rules`: list the rules, or explain one with its examples."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING

import click

from anydevice.cli.options import Stop

if TYPE_CHECKING:
    from anydevice.rules.rule import Rule


@click.command("rules")
@click.argument("code", required=False)
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="Form of the answer.")
def command(code: str | None, format_: str) -> None:
    """List all rules, or explain the rule CODE (a code like ADA01, or a name)."""
    from anydevice.rules.registry import all_rules

    rules = [rule for rule in all_rules() if code is None or code.upper() == rule.code or code == rule.name]
    if not rules:
        raise Stop(f"no rule is called '{code}'; 'anydevice rules' lists them")
    if format_ == "json":
        import json

        json.dump([_as_json(rule) for rule in rules], sys.stdout, indent=2)
        click.echo()
    elif code is None:
        for rule in rules:
            click.echo(f"{rule.code}  {rule.name:<32} {rule.summary}")
    else:
        from anydevice.rules.handbook import page

        click.echo(page(rules[0]))


def _as_json(rule: Rule) -> dict[str, object]:
    return {
        "code": rule.code,
        "name": rule.name,
        "summary": rule.summary,
        "explanation": inspect.cleandoc(type(rule).__doc__ or ""),
        "examples": [{"id": e.id, "before": e.before, "after": e.after} for e in rule.examples],
        "leaves": [{"source": e.source, "why": e.why} for e in rule.leaves],
    }
