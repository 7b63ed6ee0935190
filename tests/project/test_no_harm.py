"""On made-up files: a fixed file parses, a second fix changes nothing, and nothing else changes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anydevice.finding import Finding
from anydevice.project.examine import Circumstances, examine
from anydevice.project.fixing import fix
from anydevice.rules import facts
from anydevice.rules.registry import all_rules, python_rules
from anydevice.source import document as documents
from anydevice.source.document import Document

HEADERS = (
    "import torch\nimport torch.nn as nn\n",
    '"""A script."""\nfrom __future__ import print_function\nimport os, torch as t\n'
    "from torch import nn\nimport torch\n",
    "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\nimport torch.cuda as tc\nimport torch\n\n",
    "try:\n    import torch\nexcept ImportError:\n    torch = None\n",
    "from torch import *\n",
    "",
)


def _is_statement(line: str) -> bool:
    try:
        ast.parse(line)
    except SyntaxError:
        return False
    return True


# One-line statements of the rules' own examples: what people write, in any order and at any depth.
STATEMENTS = sorted(
    {
        line
        for rule in all_rules()
        for example in rule.examples
        if example.path.endswith(".py")
        for line in example.before.splitlines()
        if line and not line.startswith((" ", "import ", "from ", "@", "#")) and _is_statement(line)
    }
)
FRAMES = (
    "{}",
    "def f(self, x, device=None):\n{}",
    "class A(nn.Module):\n    def forward(self, x):\n{}",
    "if torch.cuda.is_available():\n{}\nelse:\n    y = 1",
    "for batch in loader:\n{}",
    "with open('f') as f:\n{}",
    "async def g(x):\n    def h():\n{}",
)


@st.composite
def sources(draw: st.DrawFn) -> str:
    """A file: a header, and statements in frames."""
    parts = [draw(st.sampled_from(HEADERS))]
    for _ in range(draw(st.integers(1, 5))):
        frame = draw(st.sampled_from(FRAMES))
        body = draw(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=4))
        depth = (
            max((len(line) - len(line.lstrip()) for line in frame.splitlines()), default=0) + 4 if frame != "{}" else 0
        )
        depth = {0: 0, 4: 4, 8: 8}.get(depth, 8)
        parts.append(frame.format("\n".join(" " * depth + line for line in body)) + "\n")
    return "\n".join(parts).replace("\n", draw(st.sampled_from(["\n", "\n", "\r\n"])))


def _document(folder: Path, source: str) -> Document:
    path = folder / "made_up.py"
    path.write_bytes(source.encode())
    return documents.read(path, path.name)


@given(source=sources(), unsafe=st.booleans())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_fix_does_no_harm(source: str, unsafe: bool, tmp_path: Path) -> None:
    before = _document(tmp_path, source)
    circumstances = Circumstances(facts=facts.of_source(before.data))

    def ask(document: Document) -> tuple[Finding, ...]:
        return examine(document, circumstances).findings

    parsed = _is_statement(source)
    result = fix(before, ask, unsafe=unsafe)
    after = result.document.data.decode()
    if parsed:
        assert _is_statement(after)
        assert not result.dropped, f"dropped {result.dropped} in\n{source}"
    again = fix(result.document, ask, unsafe=unsafe)
    assert again.document.data == result.document.data, f"{[f.code for f in again.applied]}\n{source}\n->\n{after}"
    remaining = iter(after.splitlines())
    for line in source.splitlines():
        assert _device_bound(line) or line in remaining, f"{line!r} is gone from\n{after}"
    assert ("\r\n" in after) == ("\r\n" in source) or "\n" not in source


ANCHORS = re.compile(
    "|".join(
        rf"\b{re.escape(word)}\b" for rule in python_rules(all_rules()) for word in rule.anchors + rule.text_anchors
    )
)


def _device_bound(line: str) -> bool:
    """Whether a line has anything that a rule looks at (or is blank: definitions bring blank lines with them)."""
    return not line.strip() or ANCHORS.search(line) is not None
