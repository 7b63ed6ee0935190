"""Files that are not Python: what counts as prose in them, where requirements stand, and the commands of notebooks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from anydevice.finding import Finding
from anydevice.rules.analysis import analyse
from anydevice.rules.facts import Facts
from anydevice.rules.lines import hits, style_of
from anydevice.rules.registry import select
from anydevice.rules.target import Target
from anydevice.source.document import Document, read

_X = re.compile(rb"X\w*")


@pytest.mark.parametrize(
    ("style", "source", "found"),
    [
        pytest.param("shell", "X1 # X2\n# X3\na#X4\n", ["X1", "X4"], id="a mark within a word begins no comment"),
        pytest.param("shell", "a '# X1' \"# X2\"\n", ["X1", "X2"], id="quotes hide the mark"),
        pytest.param("shell", "echo X1 \\\n  X2\nX3\n", ["X3"], id="echoed text goes on after a backslash"),
        pytest.param("shell", "cat <<-'E'\nX1\nE\nX2\na <<< X3\n", ["X2", "X3"], id="a here-document ends"),
        pytest.param("shell", "#SBATCH X1\n##SBATCH X2\n", ["X1"], id="a directive is no comment"),
        pytest.param("yaml", "a: |\n  X1\n\n  X2\nb: X3\n", ["X3"], id="a block scalar ends with its indentation"),
        pytest.param("yaml", "- a: >-\n    X1\n  b: X2\n- |\n  X3\n- X4\n", ["X2", "X4"], id="block scalars in a list"),
        pytest.param("yaml", "a: 'X1'\nb: \"first\n  X2\"\nc: X3 # X4\n", ["X1", "X3"], id="a quote over lines"),
        pytest.param("yaml", "a: don't X1\nb: X2\n", ["X1", "X2"], id="an apostrophe opens nothing"),
        pytest.param("toml", 'a = """\nX1\n"""\nb = X2 # X3\n', ["X2"], id="a text of many lines"),
        pytest.param("ini", "; X1\n# X2\na = X3\n", ["X3"], id="both marks"),
        pytest.param("docker", "# X1\nRUN X2 # X3\n", ["X2", "X3"], id="comments begin lines"),
    ],
)
def test_prose_is_passed_over(style: str, source: str, found: list[str]) -> None:
    assert [m.group().decode() for m in hits(source.encode(), _X, style)] == found


@pytest.mark.parametrize(
    ("name", "style"),
    [("a.yml", "yaml"), ("Pipfile", "toml"), ("setup.cfg", "ini"), ("Dockerfile.dev", "docker"), ("Makefile", "shell")],
)
def test_style_follows_the_name(name: str, style: str) -> None:
    assert style_of(name) == style


def _document(folder: Path, name: str, source: str) -> Document:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(source.encode())
    return read(path, name)


def _fixed(document: Document, code: str) -> str:
    found = analyse(document, select([code]), Target(), Facts())
    return document.apply([edit for finding in found for edit in finding.edits]).encoded().decode()


def test_fixed_requirements_are_requirements(tmp_path: Path) -> None:
    lines = ["torch==1.8.0+cu111", "torchvision[scipy] == 0.9.0+cu111", "triton>=2.0,<3", "cupy-cuda11x"]
    document = _document(tmp_path, "requirements/base.txt", "\r\n".join(lines) + "\r\n")
    for code in ("ADO01", "ADO04"):
        fixed = _fixed(document, code)
        assert fixed.count("\n") == fixed.count("\r\n")
        for line in fixed.splitlines():
            Requirement(line)


def test_index_of_another_build_does_not_select_the_pinned_one(tmp_path: Path) -> None:
    source = "--extra-index-url https://download.pytorch.org/whl/cu121\ntorch==2.1.0+cu118\n"
    fixed = _fixed(_document(tmp_path, "requirements.txt", source), "ADO01")
    assert 'torch==2.1.0+cu118; sys_platform != "darwin"' in fixed


def _in_notebook(folder: Path, *cells: str) -> list[Finding]:
    kind = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    sources = [{**kind, "source": cell} for cell in cells]
    notebook = {"cells": sources, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    document = _document(folder, "a.ipynb", json.dumps(notebook))
    return analyse(document, select(["ADO"]), Target(), Facts())


def test_commands_of_a_notebook_are_found_in_their_cells(tmp_path: Path) -> None:
    commands = "!nvidia-smi\n%env CUDA_VISIBLE_DEVICES=0\ny = 2"
    found = _in_notebook(tmp_path, "x = 1\n", commands, "%%bash\npip install flash-attn\n")
    assert [(f.code, f.place, f.source) for f in found] == [
        ("ADO23", "a.ipynb:cell 1:1:2", "!nvidia-smi"),
        ("ADO20", "a.ipynb:cell 1:2:1", "%env CUDA_VISIBLE_DEVICES=0"),
        ("ADO08", "a.ipynb:cell 2:2:13", "pip install flash-attn"),
    ]
    assert not any(f.edits for f in found)


def test_code_that_a_notebook_writes_is_found(tmp_path: Path) -> None:
    found = _in_notebook(tmp_path, "%%writefile a.py\n# x.cuda()\nx = x.cuda()\n", "%%html\nx.cuda()\n!nvidia-smi\n")
    assert [(f.code, f.span.cell, f.span.line) for f in found] == [("ADO11", 0, 3)]
