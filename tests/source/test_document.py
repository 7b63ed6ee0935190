"""Documents: every byte that is read comes back, places are right, and files are replaced whole or not at all."""

from __future__ import annotations

import os
import pickle
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anydevice.finding import Edit
from anydevice.source import document as documents
from anydevice.source.document import (
    Document,
    PythonDocument,
    TextDocument,
    TooLargeError,
    UnreadableError,
    UnwritableError,
    read,
)

LATIN = "# -*- coding: latin-1 -*-\nname = 'é'\n".encode("latin-1")
GBK = "#!/usr/bin/python\n# vim: set fileencoding=gbk :\nname = '中文'\n".encode("gbk")
READABLE = [
    pytest.param(b"", id="empty"),
    pytest.param(b"x = 1\r\ny = 2\r\n", id="crlf"),
    pytest.param(b"x = 1\r\ny = 2\nz = 3\rw", id="mixed_line_ends"),
    pytest.param(b"x = 1\ry = 2\r", id="cr_only"),
    pytest.param("x = 'é€𝄞'".encode(), id="utf8"),
    pytest.param(b"\xef\xbb\xbfx = 1\n", id="bom"),
    pytest.param(b"\xef\xbb\xbf# coding: utf-8\r\nx = 1\r\n", id="bom_and_coding_line"),
    pytest.param(b"# coding: utf-8-sig\nx = 1\n", id="utf8_sig_without_bom"),
    pytest.param(LATIN, id="latin1"),
    pytest.param(LATIN.replace(b"\n", b"\r"), id="latin1_cr_only"),
    pytest.param(LATIN.replace(b"\n", b"\r\n"), id="latin1_crlf"),
    pytest.param(GBK, id="gbk"),
    pytest.param("# coding: iso2022_jp\nx = 'こんにちは'\n".encode("iso2022_jp"), id="iso2022_jp"),
    pytest.param(b"x = 1\x0c\n\x1cy\n", id="odd_separators"),
]


def _file(folder: Path, content: bytes, name: str = "train.py") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def _listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _insert(document: Document, at: int, text: str) -> Document:
    return document.apply([Edit(document.span(at, at), text)])


@pytest.mark.parametrize("content", READABLE)
def test_unchanged_document_gives_back_its_bytes(content: bytes, tmp_path: Path) -> None:
    document = read(_file(tmp_path, content))
    document.data.decode()
    assert document.encoded() == content
    assert document.apply([]).encoded() == content


@pytest.mark.parametrize("content", READABLE)
def test_edit_changes_only_its_place(content: bytes, tmp_path: Path) -> None:
    document = read(_file(tmp_path, content))
    edited = _insert(document, len(document.data), "done")
    assert edited.data == document.data + b"done"
    assert edited.encoded() == content + b"done"


@given(st.binary(max_size=60))
@settings(max_examples=80, deadline=None)
def test_any_bytes_are_refused_or_come_back(content: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for name, head in (
            ("a.py", b""),
            ("b.py", b"# coding: latin-1\n"),
            ("c.py", b"# coding: gbk\n"),
            ("d.sh", b""),
        ):
            try:
                document = read(_file(Path(folder), head + content, name))
            except UnreadableError:
                continue
            assert document.encoded() == head + content
            document.data.decode()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"x = 1\n" + b"# \xe9", "not valid UTF-8 at byte 8; add a coding line", id="latin1_undeclared"),
        pytest.param(b"# \xe9\nx = 1\n", "not valid UTF-8 at byte 2; add a coding line", id="latin1_first_line"),
        pytest.param(b"# coding: utf-8\n\xff", "not valid UTF-8 at byte 16", id="declared_utf8_is_not"),
        pytest.param(b"\xef\xbb\xbfx\xff", "not valid UTF-8 at byte 4; add a coding line", id="bom_counts"),
        pytest.param(b"# coding: ascii\n\xff", "not valid ascii at byte 16", id="declared_ascii_is_not"),
        pytest.param(b"# coding: klingon\n", "unknown encoding 'klingon' in its coding line", id="unknown_encoding"),
        pytest.param(
            b"# coding: hex\n", "cannot be decoded as hex: 'hex' is not a text encoding", id="no_text_encoding"
        ),
        pytest.param(b"# coding: utf-16\n", "its coding line says utf-16, which it cannot be", id="impossible"),
        pytest.param(
            b"\xef\xbb\xbf# coding: latin-1\n",
            "its byte order mark says UTF-8, its coding line something else",
            id="bom_against_coding_line",
        ),
        pytest.param("x = 1\n".encode("utf-16"), "UTF-16 or UTF-32 text; save it as UTF-8", id="utf16"),
        pytest.param(b"x\0y", "binary file", id="binary"),
    ],
)
def test_python_file_that_cannot_be_decoded_is_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableError) as caught:
        read(_file(tmp_path, content), "train.py")
    assert str(caught.value).splitlines()[0].startswith(f"cannot read 'train.py': {reason}")
    assert "\n" not in str(caught.value)


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"cannot read 'run\.sh': not valid UTF-8 at byte 1; save it as UTF-8"):
        read(_file(tmp_path, b"#\xe9", "run.sh"), "run.sh")


def test_missing_file_and_folder_and_pipe_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"cannot read 'x\.py': no such file or directory"):
        read(tmp_path / "x.py", "x.py")
    with pytest.raises(UnreadableError, match="is a directory"):
        read(tmp_path)
    os.mkfifo(tmp_path / "pipe.py")
    with pytest.raises(UnreadableError, match="not a regular file"):
        read(tmp_path / "pipe.py")


def test_file_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _file(tmp_path, b"x")

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(UnreadableError, match="permission denied"):
        read(path)


def test_large_file_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(TooLargeError, match="11 bytes are more than the limit of 10"):
        read(_file(tmp_path, b"x" * 11), max_bytes=10)
    assert documents.MAX_BYTES < documents.MAX_NOTEBOOK_BYTES


def test_errors_survive_the_way_between_processes() -> None:
    for error in (TooLargeError("x.py", "large"), UnwritableError("x.py", "read-only")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))


def test_suffix_decides_the_kind(tmp_path: Path) -> None:
    kinds = {"a.py": PythonDocument, "b.PYI": PythonDocument, "c.pyw": PythonDocument, "Dockerfile": TextDocument}
    for name, kind in kinds.items():
        assert type(read(_file(tmp_path, b"x", name))) is kind


# -- places ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "start", "end", "place"),
    [
        pytest.param(b"ab\ncd\n", 4, 5, (2, 2, 2, 3), id="second_line"),
        pytest.param("é = 'ü'; x\n".encode(), 10, 12, (1, 9, 1, 11), id="columns_count_characters"),
        pytest.param(b"a\r\nb\rc\nd", 7, 8, (4, 1, 4, 2), id="any_line_end_counts"),
        pytest.param(b"a\n", 2, 2, (2, 1, 2, 1), id="end_of_file"),
        pytest.param(b"", 0, 0, (1, 1, 1, 1), id="empty"),
        pytest.param(b"a\x0cb\n\x1cc", 5, 6, (2, 2, 2, 3), id="form_feed_is_no_line_end"),
        pytest.param(b"ab\ncd", 1, 4, (1, 2, 2, 2), id="over_lines"),
    ],
)
def test_span_counts_lines_and_columns(data: bytes, start: int, end: int, place: tuple[int, ...]) -> None:
    span = PythonDocument(Path("x.py"), "x.py", data).span(start, end)
    assert (span.line, span.column, span.end_line, span.end_column) == place
    assert (span.start, span.end, span.cell) == (start, end, None)


def test_line_text_has_no_line_end() -> None:
    document = PythonDocument(Path("x.py"), "x.py", "a\r\n  é = 1\r\nlast".encode())
    assert document.line_text(document.span(5, 6)) == "  é = 1"
    assert document.line_text(document.span(14, 15)) == "last"


@given(st.text("aé€\n\r", max_size=30), st.data())
@settings(max_examples=60, deadline=None)
def test_span_agrees_with_splitting_lines(text: str, choice: st.DataObject) -> None:
    at = choice.draw(st.integers(0, len(text)))
    if text[at - 1 : at + 1] == "\r\n":
        return
    document = PythonDocument(Path("x.py"), "x.py", text.encode())
    span = document.span(len(text[:at].encode()), len(text.encode()))
    lines = text[:at].replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert (span.line, span.column) == (len(lines), len(lines[-1]) + 1)


# -- editing ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "newline", "edited"),
    [
        pytest.param(b"a\nb\n", "\n", b"x\ny\na\nb\n", id="lf"),
        pytest.param(b"a\r\nb\r\n", "\r\n", b"x\r\ny\r\na\r\nb\r\n", id="crlf"),
        pytest.param(b"a\rb\r", "\r", b"x\ry\ra\rb\r", id="cr"),
        pytest.param(b"a\r\nb\r\nc\n", "\r\n", b"x\r\ny\r\na\r\nb\r\nc\n", id="most_lines_decide"),
        pytest.param(b"a", "\n", b"x\ny\na", id="none"),
    ],
)
def test_inserted_lines_end_like_the_others(content: bytes, newline: str, edited: bytes, tmp_path: Path) -> None:
    document = read(_file(tmp_path, content))
    assert document.newline == newline
    assert _insert(document, 0, "x\ny\n").encoded() == edited


def test_copied_crlf_is_not_doubled(tmp_path: Path) -> None:
    assert _insert(read(_file(tmp_path, b"a\r\n")), 0, "x\r\ny\n").encoded() == b"x\r\ny\r\na\r\n"


def test_cr_only_file_has_lines_for_the_parser(tmp_path: Path) -> None:
    assert read(_file(tmp_path, b"a\rb\r")).data == b"a\nb\n"


def test_latin1_file_stays_latin1(tmp_path: Path) -> None:
    document = read(_file(tmp_path, LATIN))
    assert _insert(document, len(document.data), "x = 'ü'\n").encoded() == LATIN + "x = 'ü'\n".encode("latin-1")


def test_character_outside_of_the_encoding_is_an_error(tmp_path: Path) -> None:
    document = _insert(read(_file(tmp_path, LATIN), "train.py"), 36, "€")
    with pytest.raises(
        UnwritableError, match=r"cannot write 'train\.py': '€' does not exist in its encoding, iso-8859-1"
    ):
        document.write()
    assert document.path.read_bytes() == LATIN


def test_moving_the_coding_line_away_is_an_error(tmp_path: Path) -> None:
    document = _insert(read(_file(tmp_path, LATIN)), 0, "import a\nimport b\n")
    with pytest.raises(UnwritableError, match="would not survive"):
        document.encoded()


def test_diff_shows_the_file_under_its_name(tmp_path: Path) -> None:
    document = read(_file(tmp_path, b"\xef\xbb\xbfa\r\n"), "pkg/train.py")
    diff = document.diff(_insert(document, 3, "b\n"))
    assert diff == "--- a/pkg/train.py\n+++ b/pkg/train.py\n@@ -1 +1,2 @@\n \ufeffa\r\n+b\r\n"


# -- writing ---------------------------------------------------------------------------------------------------


def test_write_keeps_permissions_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = _file(tmp_path, b"a\n")
    path.chmod(0o751)
    _insert(read(path), 0, "b\n").write()
    assert path.read_bytes() == b"b\na\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert _listing(tmp_path) == ["train.py"]


def test_write_follows_a_symlink(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = _file(tmp_path / "real", b"a\n")
    link = tmp_path / "link.py"
    link.symlink_to(target)
    _insert(read(link), 0, "b\n").write()
    assert link.is_symlink()
    assert target.read_bytes() == b"b\na\n"
    assert _listing(tmp_path) == ["link.py", "real"]


def test_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    path = _file(tmp_path, b"a\n")
    path.chmod(0o444)
    with pytest.raises(UnwritableError, match=r"cannot write 'train\.py': the file is read-only"):
        _insert(read(path, "train.py"), 0, "b\n").write()
    assert path.read_bytes() == b"a\n"


def test_file_in_a_read_only_folder_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir()
    path = _file(tmp_path / "locked", b"a\n")
    path.parent.chmod(0o555)
    try:
        with pytest.raises(UnwritableError, match="its folder is read-only"):
            _insert(read(path), 0, "b\n").write()
        assert _listing(path.parent) == ["train.py"]
    finally:
        path.parent.chmod(0o755)


def test_failed_write_leaves_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _file(tmp_path, b"a\n")
    document = _insert(read(path), 0, "b\n")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(UnwritableError, match="no space left on device"):
        document.write()
    assert path.read_bytes() == b"a\n"
    assert _listing(tmp_path) == ["train.py"]


def test_vanished_file_is_an_error(tmp_path: Path) -> None:
    document = read(_file(tmp_path, b"a\n"))
    document.path.unlink()
    with pytest.raises(UnwritableError, match="no such file"):
        document.write()
    assert not _listing(tmp_path)


def test_documents_can_be_sent_to_workers(tmp_path: Path) -> None:
    document = read(_file(tmp_path, GBK))
    document.span(0, 1)
    again = pickle.loads(pickle.dumps(document))
    assert again.encoded() == GBK
