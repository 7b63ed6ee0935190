"""All rules, found by walking the catalogue: a new file there is a new rule, nothing else to edit."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache

from anydevice.rules import catalogue
from anydevice.rules.rule import PythonRule, Rule, TextRule


@cache
def all_rules() -> tuple[Rule, ...]:
    """One instance of every rule, by code."""
    found: dict[str, Rule] = {}
    for info in pkgutil.iter_modules(catalogue.__path__):
        module = importlib.import_module(f"{catalogue.__name__}.{info.name}")
        for cls in vars(module).values():
            if isinstance(cls, type) and issubclass(cls, Rule) and cls.__module__ == module.__name__:
                if cls.__abstractmethods__:
                    continue
                if cls.code in found:
                    raise ValueError(
                        f"two rules have the code {cls.code}: {type(found[cls.code]).__name__}, {cls.__name__}"
                    )
                found[cls.code] = cls()
    return tuple(found[code] for code in sorted(found))


def select(select: Iterable[str] = (), ignore: Iterable[str] = ()) -> tuple[Rule, ...]:
    """The rules whose code begins with (or whose name is) one of `select`, less those of `ignore`.

    Raises ValueError for a selector that matches no rule.
    """
    chosen, dropped = tuple(select), tuple(ignore)
    for selector in (*chosen, *dropped):
        if not any(_matches(rule, selector) for rule in all_rules()):
            raise ValueError(f"no rule is called '{selector}'; 'anydevice rules' lists them")
    return tuple(
        rule
        for rule in all_rules()
        if (not chosen or any(_matches(rule, s) for s in chosen)) and not any(_matches(rule, s) for s in dropped)
    )


def _matches(rule: Rule, selector: str) -> bool:
    return rule.name == selector or rule.code.startswith(selector.upper())


def python_rules(rules: Iterable[Rule]) -> tuple[PythonRule, ...]:
    """The rules about Python source."""
    return tuple(rule for rule in rules if isinstance(rule, PythonRule))


def text_rules(rules: Iterable[Rule]) -> tuple[TextRule, ...]:
    """The rules about other files."""
    return tuple(rule for rule in rules if isinstance(rule, TextRule))
