"""`anydevice rules` and `anydevice demo`."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anydevice.rules.registry import all_rules

Anydevice = Callable[..., Any]


def test_rules_lists_each_on_one_line(anydevice: Anydevice) -> None:
    run = anydevice("rules")
    assert run.status == 0
    assert [line.split()[:2] for line in run.out.splitlines()] == [[rule.code, rule.name] for rule in all_rules()]


def test_rules_lists_a_family(anydevice: Anydevice) -> None:
    listed = [line.split()[0] for line in anydevice("rules", "ADA").out.splitlines()]
    assert listed == [rule.code for rule in all_rules() if rule.code.startswith("ADA")]


@pytest.mark.parametrize("asked", ["ADA01", "ada01", "hardcoded-cuda-call"])
def test_rules_explains_one_with_its_examples(asked: str, anydevice: Anydevice) -> None:
    run = anydevice("rules", asked)
    assert run.status == 0
    assert run.out.startswith("# hardcoded-cuda-call (ADA01)\n")
    assert "## Examples" in run.out


def test_every_rule_can_be_explained(anydevice: Anydevice) -> None:
    for rule in all_rules():
        assert anydevice("rules", rule.code).out.startswith(f"# {rule.name} ({rule.code})\n")


def test_rules_are_told_to_programs(anydevice: Anydevice) -> None:
    rules = json.loads(anydevice("rules", "--format", "json").out)
    assert [rule["code"] for rule in rules] == [rule.code for rule in all_rules()]
    assert all(rule["explanation"] and rule["examples"] for rule in rules)


def test_demo_fixes_its_project_and_does_without_torch(
    here: Path, anydevice: Anydevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    run = anydevice("demo", "--keep", here / "kept")
    assert run.status == 0
    assert "torch is not installed, so the last step is left out" in run.out
    assert [run.out.index(f"=== {step}.") for step in (1, 2, 3, 4)] == sorted(
        run.out.index(f"=== {step}.") for step in (1, 2, 3, 4)
    )
    source = (here / "kept" / "train.py").read_text()
    assert "async=True" not in source
    assert ".cuda(" not in source
    compile(source, "train.py", "exec")


@pytest.mark.torch
@pytest.mark.slow
def test_demo_trains_where_torch_is_installed(here: Path, anydevice: Anydevice) -> None:
    pytest.importorskip("torch")
    run = anydevice("demo")
    assert run.status == 0
    assert "trained and restored on" in run.out
