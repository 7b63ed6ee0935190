"""Comments that silence findings on their line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anydevice.project.examine import Circumstances, Examined, examine_file

COMMENTS = {
    "everything": ("# anydevice: ignore because", True, False),
    "everything, without a reason": ("# anydevice: ignore", True, True),
    "a code": ("# anydevice: ignore[ADA01] because", True, False),
    "a code, without a reason": ("# anydevice: ignore[ADA01]", True, True),
    "a code and a colon": ("# anydevice: ignore[ADA01]: because", True, False),
    "a family": ("# anydevice: ignore[ADA] because", True, False),
    "small letters": ("# anydevice: ignore[ada01] because", True, False),
    "a name": ("# anydevice: ignore[hardcoded-cuda-call] because", True, False),
    "one of several": ("# anydevice: ignore[ADN01, ADA01] because", True, False),
    "blanks": ("#anydevice:ignore [ ADA01 ]  because", True, False),
    "behind another comment": ("# noqa  # anydevice: ignore[ADA01] because", True, False),
    "another code": ("# anydevice: ignore[ADN01] because", False, False),
    "no code": ("# anydevice: ignore[] because", False, False),
    "another word": ("# anydevice: ignored because", False, False),
    "another tool": ("# device: ignore because", False, False),
}


def _examined(path: Path, source: str) -> Examined:
    path.write_text(source, encoding="utf-8")
    return examine_file(path, path.name, Circumstances())


@pytest.mark.parametrize(("comment", "silenced", "asked"), COMMENTS.values(), ids=COMMENTS)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "windows"])
def test_a_comment_silences_what_it_names_and_asks_for_a_reason(
    end: str, comment: str, silenced: bool, asked: bool, tmp_path: Path
) -> None:
    lines = ["import torch", "x = torch.ones(1).cuda()  " + comment, "y = torch.ones(1).cuda()", ""]
    examined = _examined(tmp_path / "a.py", end.join(lines))
    assert [finding.span.line for finding in examined.findings] == ([3] if silenced else [2, 3])
    assert examined.silenced == int(silenced)
    reason = "a.py:2: 'anydevice: ignore' without a reason; write why after the bracket"
    assert examined.notices == ((reason,) if asked else ())


@pytest.mark.parametrize("line", [2, 4])
def test_a_finding_of_several_lines_is_silenced_on_its_first_or_last(line: int, tmp_path: Path) -> None:
    lines = ["import torch", "x = torch.ones(", "    1", ").cuda()"]
    lines[line - 1] += "  # anydevice: ignore[ADA01] because"
    assert _examined(tmp_path / "a.py", "\n".join(lines)).silenced == 1


def test_two_comments_on_a_line_add_up(tmp_path: Path) -> None:
    comments = "# anydevice: ignore[ADA01] because # anydevice: ignore[ADN01] too"
    assert _examined(tmp_path / "a.py", f"import torch\nx = torch.ones(1).cuda()  {comments}\n").silenced == 1


def test_a_comment_in_a_notebook_silences_its_own_cell_only(tmp_path: Path) -> None:
    def cell(source: str) -> dict[str, object]:
        return {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": source}

    move = "x = torch.ones(1).cuda()"
    cells = [cell("import torch"), cell(f"{move}  # anydevice: ignore[ADA01]"), cell(move)]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    examined = _examined(tmp_path / "n.ipynb", json.dumps(notebook))
    assert [finding.span.cell for finding in examined.findings] == [2]
    assert examined.notices[0].startswith("n.ipynb:cell 1:1: ")
