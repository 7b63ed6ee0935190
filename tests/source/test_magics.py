"""IPython's own syntax in notebooks: out of sight, byte for byte, and told with its places."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anydevice.source.notebook import NotebookDocument, parse


def _notebook(*sources: str) -> str:
    cells = [{"cell_type": "code", "source": source} for source in sources]
    return json.dumps({"nbformat": 4, "cells": cells})


def _parsed(content: str) -> NotebookDocument:
    return parse(Path("x.ipynb"), "x.ipynb", content.encode())


@pytest.mark.parametrize(
    ("source", "masked"),
    [
        pytest.param("%matplotlib inline\nx", "pass##############\nx", id="line_magic"),
        pytest.param("if x:\n    !pip install é\n", "if x:\n    pass###########\n", id="shell_in_a_block"),
        pytest.param("!a \\\n  --b\nx", "pass\n#####\nx", id="continued"),
        pytest.param("%\n!x\n?x", "0\n0#\n0#", id="short"),
        pytest.param("torch.nn?\nx??\n?x.y\n", "pass#####\n0##\npass\n", id="help"),
        pytest.param("x = !nvidia-smi -L\ny = %env A", "x = _#############\ny = _#####", id="assigned"),
        pytest.param("a, b['c'] = !ls", "a, b['c'] = _##", id="assigned_to_targets"),
        pytest.param("%%bash\npip install x\n\necho 'é", "pass##\n#############\n\n########", id="bash_cell"),
        pytest.param("\n%%time\n%%capture out\nx.cuda()", "\npass##\npass#########\nx.cuda()", id="timed_python"),
        pytest.param("%%timeit\n!ls -l\nx", "pass####\npass##\nx", id="magic_in_a_timed_cell"),
        pytest.param("%%writefile a.py\nx.cuda()", "pass############\n########", id="written_file_is_not_this_cell"),
        pytest.param("x = (a\n  % b)\ny = '''\n%d\n!z\n'''", None, id="operators_and_strings"),
        pytest.param("x = a \\\n  % b\ny = [\n!z", None, id="continued_python"),
        pytest.param("print('what?')\n# why?\nx %= 2\nx != 3\n", None, id="python_with_the_same_signs"),
        pytest.param('s = \'it\\\'s = !x\'\nt = """a\\"""\n%x"""', None, id="escaped_quotes"),
        pytest.param("# it's (\n%cd", "# it's (\n0##", id="comment_before"),
    ],
)
def test_magics_are_masked_byte_for_byte(source: str, masked: str | None) -> None:
    content = _notebook(source)
    document = _parsed(content)
    expected = _masked_as_bytes(source, source if masked is None else masked)
    assert document.data == expected
    assert len(document.data) == len(source.encode()) + (not source.endswith("\n"))
    assert document.encoded() == content.encode()


def _masked_as_bytes(source: str, masked: str) -> bytes:
    """`masked` with a further `#` for every byte that a masked character had beyond its first."""
    lines = [
        new if new == old else new + "#" * (len(old.encode()) - len(new))
        for old, new in zip(source.split("\n"), masked.split("\n"), strict=True)
    ]
    return ("\n".join(lines) + ("" if source.endswith("\n") else "\n")).encode()


def test_masked_cells_parse() -> None:
    sources = ["%%time\nfor i in x:\n    !echo \\\n      {i}\n    y = %env HOME\n", "%%html\n<b>é</b>", "import os?"]
    ast.parse(_parsed(_notebook(*sources[:2])).data)


def test_magics_are_told_with_their_places() -> None:
    document = _parsed(
        _notebook("x = 1\n  !nvidia-smi\nn = !ls \\\n  -l", "%%bash\n\npip install torch==1.8+cu111", "%env A=0"),
    )
    assert document.magics == [
        (0, 2, "  !nvidia-smi"),
        (0, 3, "n = !ls \\"),
        (0, 4, "  -l"),
        (1, 1, "%%bash"),
        (1, 3, "pip install torch==1.8+cu111"),
        (2, 1, "%env A=0"),
    ]
    span = document.magic_span(4)
    assert (span.cell, span.line, span.column, span.start) == (1, 3, 1, span.end)
    assert document.data[span.start : span.start + 4] == b"####"


@given(st.text("%!?=x \\\n'\"([)é#", max_size=40))
@settings(max_examples=150, deadline=None)
def test_masking_keeps_bytes_and_lines(source: str) -> None:
    content = _notebook(source)
    document = _parsed(content)
    raw = source.encode() + (b"" if source.endswith("\n") else b"\n")
    assert len(document.data) == len(raw)
    assert [i for i, c in enumerate(document.data) if c == 10] == [i for i, c in enumerate(raw) if c == 10]
    assert document.encoded() == content.encode()
    for cell, line, text in document.magics:
        assert cell == 0
        assert source.split("\n")[line - 1] == text
