"""`anydevice rules`: list the rules, or explain one with its examples."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import click

from anydevice.cli.options import Stop

if TYPE_CHECKING:
    from anydevice.rules.rule import Rule


@click.command("rules")
@click.argument("code", required=False)
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="Form of the answer.")
def command(code: str | None, format_: str) -> None:
    """List all rules or those of a family (ADA), or explain one: CODE is its code (ADA01) or its name."""
    from anydevice.rules.registry import all_rules

    rules = [rule for rule in all_rules() if code is None or rule.code.startswith(code.upper()) or rule.name == code]
    if not rules:
        raise Stop(f"no rule is called '{code}'; 'anydevice rules' lists them")
    if format_ == "json":
        import json

        click.echo(json.dumps([_as_json(rule) for rule in rules], indent=2))
    elif code is not None and len(rules) == 1:
        from anydevice.rules.handbook import page

        click.echo(page(rules[0]), nl=False)
    else:
        widest = max(len(rule.name) for rule in rules)
        for rule in rules:
            click.echo(f"{rule.code}  {rule.name:{widest}}  {rule.summary}")


def _as_json(rule: Rule) -> dict[str, object]:
    return {
        "code": rule.code,
        "name": rule.name,
        "summary": rule.summary,
        "explanation": inspect.cleandoc(type(rule).__doc__ or ""),
        "examples": [{"id": e.id, "path": e.path, "before": e.before, "after": e.after} for e in rule.examples],
        "leaves": [{"path": e.path, "source": e.source, "why": e.why} for e in rule.leaves],
    }
