"""Notebooks: cells as one text, and files in which only edited sources change."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbformat import v4

import anydevice
from anydevice.finding import Edit
from anydevice.source.document import Document, UnreadableError, UnwritableError, read
from anydevice.source.notebook import NotebookDocument, parse

WEIRD = "𝄞 \u2028 \x7f é \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")
_RAW = r"""{
 "cells": [
  {"cell_type": "markdown", "id": "m", "metadata": {}, "source": ["# x.cuda()"]},
  {
   "cell_type": "code",
   "execution_count": null,
   "id": "a",
   "metadata": {},
   "outputs": [{"name": "stdout", "output_type": "stream", "text": ["\u00e9\/ \ud83d\ude00 é", "\b"]}],
   "source": [
    "import torch\n",
    "x = '\u00e9\/'\n",
    "y = x.cuda()"
   ]
  }
 ],
 "metadata": {"z": 1.50, "a": 1e5},
 "nbformat": 4,
 "nbformat_minor": 5
}
"""


def _read(folder: Path, content: str | bytes, name: str = "x.ipynb") -> NotebookDocument:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    document = read(path, name)
    assert isinstance(document, NotebookDocument)
    return document


def _notebook(*sources: str, **metadata: Any) -> str:
    cells = [v4.new_code_cell(source) for source in sources]  # type: ignore[no-untyped-call]
    return str(nbformat.writes(v4.new_notebook(cells=cells, metadata=metadata)))  # type: ignore[no-untyped-call]


def _replace(document: Document, old: str, new: str) -> Document:
    at = document.data.index(old.encode())
    return document.apply([Edit(document.span(at, at + len(old.encode())), new)])


def _insert(document: Document, at: int, text: str) -> Document:
    return document.apply([Edit(document.span(at, at), text)])


def _sources(document: Document) -> list[str]:
    notebook = nbformat.reads(document.encoded().decode(), as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    return [cell.source for cell in notebook.cells]


# -- reading ---------------------------------------------------------------------------------------------------


def test_code_cells_are_one_text(tmp_path: Path) -> None:
    document = _read(tmp_path, _notebook("import torch", "", "x = 1\n", "y = 2"))
    assert document.data == b"import torch\n\nx = 1\ny = 2\n"


def test_places_are_those_of_the_cell(tmp_path: Path) -> None:
    document = _read(tmp_path, _RAW)
    at = document.data.index(b".cuda")
    span = document.span(at, at + 5)
    assert (span.cell, span.line, span.column, span.end_line, span.end_column) == (1, 3, 6, 3, 11)
    assert document.line_text(span) == "y = x.cuda()"
    two = _read(tmp_path, _notebook("a\nb", "é = c"))
    span = two.span(two.data.index(b"c"), len(two.data))
    assert (span.cell, span.line, span.column) == (1, 1, 5)


def test_reading_does_not_import_nbformat(tmp_path: Path) -> None:
    (tmp_path / "x.ipynb").write_text(_RAW, encoding="utf-8")
    code = (
        "import sys, pathlib; from anydevice.source.document import read; read(pathlib.Path('x.ipynb')).encoded();"
        "assert 'nbformat' not in sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(anydevice.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, env=environment)


@pytest.mark.parametrize(
    ("metadata", "data"),
    [
        pytest.param({}, b"x\n", id="no_metadata_is_python"),
        pytest.param({"kernelspec": {"name": "r", "display_name": "R", "language": "R"}}, b"", id="kernel_says_r"),
        pytest.param({"language_info": {"name": "julia"}}, b"", id="language_info_says_julia"),
        pytest.param({"language_info": {"name": "python"}}, b"x\n", id="language_info_says_python"),
        pytest.param(
            {"kernelspec": {"name": "p", "display_name": "P", "language": "python"}}, b"x\n", id="kernel_says_python"
        ),
    ],
)
def test_only_python_is_read(metadata: dict[str, Any], data: bytes, tmp_path: Path) -> None:
    content = _notebook("x", **metadata)
    document = _read(tmp_path, content)
    assert document.data == data
    assert document.encoded() == content.encode()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param("", "not valid JSON at line 1, column 1: expecting value", id="empty"),
        pytest.param(_RAW[:400], "not valid JSON at line 17, column 19: expecting value", id="half_written"),
        pytest.param("not json", "not valid JSON at line 1, column 1: expecting value", id="text"),
        pytest.param("[1]", "not a notebook: the JSON is no object", id="list"),
        pytest.param('{"a": 1}', "not a notebook of format 2, 3 or 4", id="other_object"),
        pytest.param('{"cells": 3, "nbformat": 4}', "not a notebook of format 2, 3 or 4", id="cells_are_no_list"),
        pytest.param('{"cells": []}', "not a notebook of format 2, 3 or 4", id="no_format"),
        pytest.param('{"cells": [], "nbformat": 9}', "not a notebook of format 2, 3 or 4", id="format_to_come"),
        pytest.param('{"cells": [], "nbformat": 4} x', "not valid JSON at line 1, column 30: extra data", id="more"),
        pytest.param('{"cells": [,], "nbformat": 4}', "not valid JSON at line 1, column 12", id="comma"),
        pytest.param('{"cells" [], "nbformat": 4}', "not valid JSON at line 1, column 10: expecting ':'", id="colon"),
        pytest.param("{cells: []}", "not valid JSON at line 1, column 2: expecting property name", id="bare_key"),
        pytest.param("<<<<<<< HEAD\n" + _RAW, "not valid JSON at line 1, column 1", id="merge_conflict"),
        pytest.param(b'{"\xff": 1}', "not valid UTF-8 at byte 2", id="latin1"),
        pytest.param('{"a": ' + "[" * 100_000, "its JSON is nested too deeply", id="nested"),
    ],
)
def test_broken_notebook_is_refused_in_one_line(content: str | bytes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableError) as caught:
        _read(tmp_path, content)
    assert str(caught.value).startswith(f"cannot read 'x.ipynb': {reason}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param("3", id="cell_is_a_number"),
        pytest.param('{"cell_type": "code", "source": null}', id="source_is_null"),
        pytest.param('{"cell_type": "code"}', id="no_source"),
        pytest.param('{"cell_type": "code", "source": [1]}', id="source_of_numbers"),
        pytest.param('{"cell_type": "raw", "source": "x"}', id="raw_cell"),
    ],
)
def test_odd_cells_are_passed_over(cell: str, tmp_path: Path) -> None:
    content = f'{{"nbformat": 4, "cells": [{cell}, {{"source": "y", "cell_type": "code"}}]}}'
    document = _read(tmp_path, content)
    assert document.data == b"y\n"
    assert document.span(0, 1).cell == 1


# -- editing ---------------------------------------------------------------------------------------------------


def test_only_the_edited_line_of_the_file_changes(tmp_path: Path) -> None:
    edited = _replace(_read(tmp_path, _RAW), "x.cuda()", "x.to(device)")
    assert edited.encoded() == _RAW.replace("y = x.cuda()", "y = x.to(device)").encode()


def test_inserted_lines_take_the_layout_of_the_cell(tmp_path: Path) -> None:
    document = _read(tmp_path, _RAW)
    edited = _insert(document, len("import torch\n"), 'd = "ü"\n')
    line = '    "import torch\\n",\n'
    assert edited.encoded() == _RAW.replace(line, line + '    "d = \\"ü\\"\\n",\n').encode()
    assert edited.apply([]).encoded() == edited.encoded()


def test_ascii_file_stays_ascii(tmp_path: Path) -> None:
    edited = _replace(_read(tmp_path, json.dumps(json.loads(_RAW))), "x.cuda()", "'ü€𝄞'")
    assert edited.encoded().isascii()
    assert _sources(edited)[1].endswith("y = 'ü€𝄞'")


@pytest.mark.parametrize(
    ("source", "after"),
    [
        pytest.param(r'"import torch\nx = \"\/\"\n"', r'"import torch\nd = 1\nx = \"\/\"\n"', id="single_string"),
        pytest.param(r'"import torch\nx=\"\\n\""', r'"import torch\nd = 1\nx=\"\\n\""', id="escaped_backslash"),
        pytest.param(r'["import torch"]', r'["import torch\n", "d = 1"]', id="one_line"),
        pytest.param(r'["import torch\n","x"]', r'["import torch\n","d = 1\n","x"]', id="compact"),
        pytest.param('[\n "import torch"\n]', '[\n "import torch\\n",\n "d = 1"\n]', id="one_item_on_its_line"),
        pytest.param(r'["import torch\nx\n", "y"]', r'["import torch\n", "d = 1\n", "x\n", "y"]', id="split_oddly"),
        pytest.param(r'["import torch\n","\n","\n","x"]', r'["import torch\n","d = 1\n","\n","\n","x"]', id="repeated"),
        pytest.param(
            r'["import torch\n", "x\f", "y"]', r'["import torch\n", "d = 1\n", "x\f", "y"]', id="split_at_form_feed"
        ),
    ],
)
def test_layout_of_the_source_is_kept(source: str, after: str, tmp_path: Path) -> None:
    content = '{"nbformat_minor":5,"nbformat":4,"cells":[{"source":%s,"cell_type":"code"}],"metadata":{}}'
    document = _read(tmp_path, content % source)
    edited = _insert(document, len("import torch\n"), "d = 1\n")
    assert edited.encoded().decode() == content % after


def test_emptied_cell_is_an_empty_list(tmp_path: Path) -> None:
    document = _read(tmp_path, _notebook("x = 1\ny = 2", "z"))
    assert _sources(_replace(document, "x = 1\ny = 2", "")) == ["", "z"]


def test_several_passes_of_edits_add_up(tmp_path: Path) -> None:
    document = _read(tmp_path, _notebook("import torch\nx.cuda()", "y.cuda()"))
    once = _replace(_replace(document, "y.cuda()", "y.to(d)"), "x.cuda()", "x.to(d)")
    assert _sources(_insert(once, 13, "d = 1\n")) == ["import torch\nd = 1\nx.to(d)", "y.to(d)"]


@pytest.mark.parametrize(
    ("sources", "at", "after"),
    [
        pytest.param(["import a", "x"], 9, ["import a\nd = 1", "x"], id="after_imports_in_their_cell"),
        pytest.param(["y", "x"], 2, ["y", "d = 1\nx"], id="before_a_statement_in_its_cell"),
        pytest.param(["y", "%%bash\nls", "x"], 2, ["y\nd = 1", "%%bash\nls", "x"], id="not_into_a_bash_cell"),
        pytest.param(["y", "%%time\nx"], 2, ["y\nd = 1", "%%time\nx"], id="not_before_a_cell_magic"),
        pytest.param(["%%time\nx"], 0, ["%%time\nd = 1\nx"], id="after_the_cell_magic"),
        pytest.param(["%%bash\nls", "x"], 0, ["%%bash\nls", "d = 1\nx"], id="in_the_first_python_cell"),
        pytest.param(["import a", "%%bash\nls"], 19, ["import a\nd = 1", "%%bash\nls"], id="at_the_end"),
        pytest.param(["x"], 2, ["x\nd = 1"], id="at_the_end_of_the_only_cell"),
        pytest.param(["%cd x\ny"], 0, ["d = 1\n%cd x\ny"], id="before_a_line_magic"),
        pytest.param(["y", "", "x"], 2, ["y\nd = 1", "", "x"], id="not_into_an_empty_cell"),
    ],
)
def test_whole_lines_between_cells_find_a_home(sources: list[str], at: int, after: list[str], tmp_path: Path) -> None:
    document = _read(tmp_path, _notebook(*sources))
    edited = _insert(document, at, "d = 1\n")
    assert _sources(edited) == after


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        pytest.param(3, 4, "x", id="within_a_magic"),
        pytest.param(0, 0, "x", id="before_a_cell_magic"),
        pytest.param(5, 9, "x", id="into_a_magic"),
        pytest.param(7, 14, "x", id="over_cells"),
        pytest.param(0, 99, "x", id="outside"),
    ],
)
def test_edit_that_is_not_in_the_python_of_one_cell_is_an_error(
    start: int, end: int, text: str, tmp_path: Path
) -> None:
    document = _read(tmp_path, _notebook("%%time\nx = 1", "y = 2"))
    with pytest.raises(ValueError, match="edit of bytes"):
        document.apply([Edit(document.span(start, end), text)])


def test_old_format_is_edited_in_place(tmp_path: Path) -> None:
    content = (
        '{"metadata": {"name": ""}, "nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": ['
        '{"cell_type": "code", "collapsed": false, "input": ["x\\n", "y.cuda()"], "language": "python", "metadata": {},'
        ' "outputs": []}, {"cell_type": "code", "collapsed": false, "input": "z", "language": "ruby", "metadata": {},'
        ' "outputs": []}], "metadata": {}}]}'
    )
    document = _read(tmp_path, content)
    assert document.data == b"x\ny.cuda()\n"
    assert _replace(document, "cuda()", "to(d)").encoded() == content.replace("cuda()", "to(d)").encode()


def test_result_that_is_no_valid_notebook_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edited = _replace(_read(tmp_path, _RAW), "x.cuda()", "x")
    monkeypatch.setattr("nbformat.validator.isvalid", lambda notebook: "x.cuda()" in str(notebook["cells"][1]))
    with pytest.raises(UnwritableError, match="would not be a valid notebook"):
        edited.write()
    assert (tmp_path / "x.ipynb").read_text(encoding="utf-8") == _RAW


def test_invalid_notebook_can_be_edited_all_the_same(tmp_path: Path) -> None:
    edited = _replace(_read(tmp_path, '{"nbformat": 4, "cells": [{"cell_type": "code", "source": "x"}]}'), "x", "y")
    assert b'"source": "y"' in edited.encoded()


def test_half_a_character_stays_as_it_was(tmp_path: Path) -> None:
    content = '{"nbformat": 4, "cells": [{"cell_type": "code", "source": ["a = \'\\ud83d\'\\n", "b"]}]}'
    document = _read(tmp_path, content)
    document.data.decode()
    assert _replace(document, "b", "c").encoded() == content.replace('"b"', '"c"').encode()


def test_diff_is_one_of_the_file(tmp_path: Path) -> None:
    document = _read(tmp_path, _RAW)
    diff = document.diff(_replace(document, "x.cuda()", "x"))
    assert '-    "y = x.cuda()"\n+    "y = x"\n' in diff
    assert diff.startswith("--- a/x.ipynb\n+++ b/x.ipynb\n")


def test_notebooks_can_be_sent_to_workers(tmp_path: Path) -> None:
    edited = _replace(_read(tmp_path, _RAW), "x.cuda()", "x")
    assert pickle.loads(pickle.dumps(edited)).encoded() == edited.encoded()


_SOURCES = st.lists(st.text('ab é\n𝄞"\\/%', max_size=20), max_size=4)


@given(_SOURCES, st.booleans(), st.sampled_from([None, 1, 4]), st.booleans(), st.data())
@settings(max_examples=80, deadline=None)
def test_only_edited_sources_change(
    sources: list[str], ascii_only: bool, indent: int | None, as_lines: bool, choice: st.DataObject
) -> None:
    cells = [
        {
            "cell_type": "code", "execution_count": None, "id": str(i), "metadata": {"k": WEIRD},
            "outputs": [{"output_type": "stream", "name": "stdout", "text": WEIRD}],
            "source": source.splitlines(keepends=True) if as_lines else source,
        }
        for i, source in enumerate(sources)
    ]  # fmt: skip
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    content = json.dumps(notebook, ensure_ascii=ascii_only, indent=indent) + "\n"
    document = parse(Path("x.ipynb"), "x.ipynb", content.encode())
    assert document.encoded() == content.encode()
    spots = [i for i, c in enumerate(document.data) if c == ord("a")]
    if not spots or document.magics:
        return
    at = choice.draw(st.sampled_from(spots))
    new = choice.draw(st.text("xü\n", max_size=5))
    edited = document.apply([Edit(document.span(at, at + 1), new)])
    after = json.loads(edited.encoded())
    for old_cell, new_cell in zip(cells, after["cells"], strict=True):
        assert {**new_cell, "source": 0} == {**old_cell, "source": 0}
    joined = ["".join(cell["source"]) for cell in after["cells"]]
    span = document.span(at, at + 1)
    lines = sources[span.cell or 0].split("\n")
    line = lines[span.line - 1]
    lines[span.line - 1] = line[: span.column - 1] + new + line[span.column :]
    expected = [*sources]
    expected[span.cell or 0] = "\n".join(lines)
    assert [text.removesuffix("\n") for text in joined] == [text.removesuffix("\n") for text in expected]
    others = json.dumps(WEIRD, ensure_ascii=ascii_only)
    assert edited.encoded().decode().count(others) == content.count(others)
    before, marker, _ = content.partition(json.dumps(str(span.cell)) + ', "metadata"')
    assert not marker or edited.text().startswith(before + marker)
