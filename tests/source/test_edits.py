"""Edits: applied once and in order, chosen without overlap, and shown so that `patch` can repeat them."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anydevice.finding import Edit, Span
from anydevice.source.edits import apply, compatible, unified_diff


def edit(start: int, end: int, text: str) -> Edit:
    return Edit(Span(start, end, 1, start + 1, 1, end + 1), text)


@pytest.mark.parametrize(
    ("edits", "after"),
    [
        pytest.param([], b"abcdef", id="no_edits"),
        pytest.param([edit(4, 6, "Z"), edit(0, 2, "X")], b"XcdZ", id="order_given_does_not_matter"),
        pytest.param([edit(2, 2, "X"), edit(2, 2, "X")], b"abXcdef", id="equal_edits_are_made_once"),
        pytest.param([edit(2, 4, "X"), edit(2, 2, "<"), edit(4, 4, ">")], b"ab<X>ef", id="insertions_at_the_border"),
        pytest.param([edit(0, 3, ""), edit(3, 6, "é")], "é".encode(), id="adjacent_replacements"),
        pytest.param([edit(6, 6, "!")], b"abcdef!", id="at_the_end"),
    ],
)
def test_edits_are_applied(edits: list[Edit], after: bytes) -> None:
    assert apply(b"abcdef", edits) == after


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param([edit(0, 3, "X"), edit(2, 4, "Y")], id="crossing"),
        pytest.param([edit(0, 5, "X"), edit(2, 3, "Y")], id="nested"),
        pytest.param([edit(0, 3, "X"), edit(0, 3, "Y")], id="same_place_other_text"),
        pytest.param([edit(1, 1, "X"), edit(1, 1, "Y")], id="two_insertions_at_one_place"),
        pytest.param([edit(0, 3, "X"), edit(1, 1, "Y")], id="insertion_within"),
        pytest.param([edit(5, 9, "X")], id="outside"),
    ],
)
def test_overlapping_edits_are_an_error(edits: list[Edit]) -> None:
    with pytest.raises(ValueError, match="edit"):
        apply(b"abcdef", edits)


@pytest.mark.parametrize(
    ("groups", "accepted"),
    [
        pytest.param([[edit(0, 1, "a")], [edit(0, 1, "a")]], [0, 1], id="equal_edits_go_together"),
        pytest.param([[edit(0, 3, "a")], [edit(2, 4, "b")], [edit(4, 5, "c")]], [0, 2], id="overlap_is_put_off"),
        pytest.param([[edit(2, 3, "a")], [edit(0, 5, "b")]], [0], id="enclosing_is_put_off"),
        pytest.param([[edit(0, 5, "a")], [edit(2, 3, "b")]], [0], id="enclosed_is_put_off"),
        pytest.param([[edit(3, 3, "a")], [edit(0, 5, "b")]], [0], id="replacement_around_an_insertion_is_put_off"),
        pytest.param([[edit(0, 5, "a")], [edit(3, 3, "b")]], [0], id="insertion_within_is_put_off"),
        pytest.param([[edit(1, 3, "a")], [edit(1, 1, "b")], [edit(3, 3, "c")]], [0, 1, 2], id="borders_are_free"),
        pytest.param([[edit(1, 1, "a")], [edit(1, 1, "b")], [edit(1, 1, "a")]], [0, 2], id="insertions_conflict"),
        pytest.param([[edit(0, 1, "a")], [edit(0, 1, "b"), edit(5, 6, "c")], [edit(5, 6, "d")]], [0, 2], id="whole"),
        pytest.param([[edit(0, 2, "a"), edit(1, 3, "b")], [edit(0, 1, "c")]], [1], id="at_odds_with_itself"),
        pytest.param([[], [edit(0, 1, "a")]], [0, 1], id="empty_group"),
    ],
)
def test_groups_go_in_whole_or_not_at_all(groups: list[list[Edit]], accepted: list[int]) -> None:
    chosen, put_off = compatible(groups)
    assert chosen == accepted
    assert sorted(chosen + put_off) == list(range(len(groups)))
    apply(b"abcdef", [e for index in chosen for e in groups[index]])


@st.composite
def _texts_and_edits(draw: st.DrawFn) -> tuple[str, list[tuple[int, int, str]]]:
    text = draw(st.text("aé\n€𝄞 ", max_size=40))
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=8)))
    pairs = list(zip(cuts[::2], cuts[1::2], strict=False))
    return text, [(a, b, draw(st.text("xü\n", max_size=4))) for a, b in pairs]


@given(_texts_and_edits())
@settings(max_examples=60, deadline=None)
def test_applying_equals_replacing_from_the_end(case: tuple[str, list[tuple[int, int, str]]]) -> None:
    text, changes = case
    naive = text
    for start, end, new in reversed(changes):
        naive = naive[:start] + new + naive[end:]
    edits = [edit(len(text[:a].encode()), len(text[:b].encode()), new) for a, b, new in changes]
    assert apply(text.encode(), edits) == naive.encode()


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4), st.sampled_from("ab")), max_size=10))
@settings(max_examples=60, deadline=None)
def test_what_is_compatible_can_be_applied_and_the_rest_cannot(raw: list[tuple[int, int, str]]) -> None:
    edits = [edit(start, start + length, text) for start, length, text in raw]
    accepted, put_off = compatible([[e] for e in edits])
    together = [edits[index] for index in accepted]
    apply(b"0123456789abcdef", together)
    for index in put_off:
        with pytest.raises(ValueError, match="overlap"):
            apply(b"0123456789abcdef", [*together, edits[index]])


def test_thousands_of_edits_take_no_time() -> None:
    groups = [[edit(i * 3, i * 3 + 2, "x"), edit(0, 0, "import x\n")] for i in reversed(range(10_000))]
    began = time.perf_counter()
    accepted, _ = compatible(groups)
    apply(b"abc" * 10_000, [e for group in groups for e in group])
    assert len(accepted) == 10_000
    assert time.perf_counter() - began < 3  # about 0.1 s; a quadratic way takes minutes


DIFFS = [
    pytest.param("a\nb\nc\n", "a\nB\nc\n", id="a_line"),
    pytest.param("a\nb", "a\nc", id="no_newline_at_either_end"),
    pytest.param("a\nb", "a\nb\n", id="newline_added"),
    pytest.param("a\nb\n", "a\nb", id="newline_removed"),
    pytest.param("", "a\n", id="was_empty"),
    pytest.param("a\r\nb\r\nc\r\n", "a\r\nB\r\nc\r\n", id="crlf"),
    pytest.param("a\rb\r\nc\n", "a\rX\r\nc\n", id="mixed_line_ends"),
    pytest.param("\n" * 30 + "x\n" + "y\n" * 30, "\n" * 30 + "z\n" + "y\n" * 29 + "w\n", id="two_hunks"),
    pytest.param("é\x0c\u2028\nb\n", "é\x0c\u2028\nc\n", id="odd_separators_are_no_line_ends"),
]


@pytest.mark.skipif(shutil.which("patch") is None, reason="needs patch")
@pytest.mark.parametrize(("before", "after"), DIFFS)
def test_patch_can_apply_the_diff(before: str, after: str, tmp_path: Path) -> None:
    _patch(tmp_path, before, after)


@given(st.lists(st.sampled_from(["a", "b\r", "", "é"]), max_size=14), _texts_and_edits(), st.booleans())
@settings(max_examples=12, deadline=None)
@pytest.mark.skipif(shutil.which("patch") is None, reason="needs patch")
def test_patch_can_apply_any_diff(lines: list[str], case: tuple[str, list[tuple[int, int, str]]], ended: bool) -> None:
    import tempfile

    before = "\n".join(lines) + ("\n" if ended else "")
    after = before[: len(before) // 2] + case[0] + before[len(before) // 2 + 1 :]
    if before == after or not after:  # patch removes a file that becomes empty
        return
    with tempfile.TemporaryDirectory() as folder:
        _patch(Path(folder), before, after)


def _patch(folder: Path, before: str, after: str) -> None:
    target = folder / "my file.py"
    target.write_bytes(before.encode())
    diff = unified_diff("my file.py", before, after)
    command = ["patch", "-p1", "--binary", "--no-backup-if-mismatch", "-F0"]
    done = subprocess.run(command, input=diff.encode(), cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode() + diff
    assert target.read_bytes() == after.encode()


def test_diff_has_the_headers_of_git() -> None:
    diff = unified_diff("pkg/train.py", "a\nb\n", "a\nc\n")
    assert diff == "--- a/pkg/train.py\n+++ b/pkg/train.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"


def test_nothing_changed_has_no_diff() -> None:
    assert unified_diff("x.py", "a\n", "a\n") == ""
