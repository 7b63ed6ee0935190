"""Text from strangers' files is shown, never obeyed."""

from __future__ import annotations

import pytest

from anydevice.report.plain import printable, width


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("x = 1", "x = 1", id="plain"),
        pytest.param("ä 网 🔥", "ä 网 🔥", id="non_ascii"),
        pytest.param("\tx", "\tx", id="tab"),
        pytest.param("a\x1b[31mb", "a\\x1b[31mb", id="escape_sequence"),
        pytest.param("a\nb\r", "a\\nb\\r", id="line_ends"),
        pytest.param("a\u202eb", "a\\u202eb", id="right_to_left_override"),
        pytest.param("\udcff.py", "\\udcff.py", id="byte_of_a_file_name"),
    ],
)
def test_only_what_shows_is_kept(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(("text", "columns"), [("abc", 3), ("网", 2), ("é", 1), ("e\u0301", 1), ("", 0)])
def test_width_is_that_of_a_terminal(text: str, columns: int) -> None:
    assert width(text) == columns
