"""Which parts of a file that is not Python are prose: comments, echoed text, here-documents, block scalars."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator

Spans = list[tuple[int, int]]

_DIRECTIVE = re.compile(rb"#(?:SBATCH|PBS|BSUB|\$)[ \t]")
_SAID = re.compile(rb"[@\-]*(?:echo|printf|print|log\w*|info|warn\w*|error|die|usage|say|REM|rem|Write-Host)\b")
_HEREDOC = re.compile(rb"(?<!<)<<-?[ \t]*[\"']?(\w+)[\"']?")
_BLOCK_SCALAR = re.compile(rb"^([ \t]*(?:-[ \t]+)*)(?:[^\s#][^\n]*:[ \t]+)?[|>][+\-\d]*[ \t\r]*$")
_OPEN_QUOTE = re.compile(rb"(?:^|[:\-\[{,=])[ \t]*([\"'])")
_TOML_TEXT = re.compile(rb"(?s)\"\"\".*?\"\"\"|'''.*?'''")


def hits(data: bytes, pattern: re.Pattern[bytes], style: str) -> Iterator[re.Match[bytes]]:
    """The matches of `pattern` that begin outside prose; `style` is shell, yaml, toml, ini, json or docker."""
    prose: Spans | None = None
    for match in pattern.finditer(data):
        if prose is None:
            prose = _STYLES[style](data)
            starts = [start for start, _ in prose]
        at = match.start() + len(match.group()) - len(match.group().lstrip())
        index = bisect_right(starts, at) - 1
        if index < 0 or prose[index][1] <= at:
            yield match


def line_of(data: bytes, offset: int) -> bytes:
    """The line of `offset`."""
    end = data.find(b"\n", offset)
    return data[data.rfind(b"\n", 0, offset) + 1 : len(data) if end < 0 else end]


def style_of(name: str) -> str:
    """How a file of this name writes its comments."""
    lower = name.lower()
    if lower.endswith((".yml", ".yaml")):
        return "yaml"
    if lower.endswith(".toml") or lower == "pipfile":
        return "toml"
    if lower.endswith((".ini", ".cfg", ".conf")):
        return "ini"
    if lower.endswith((".json", ".json5", ".jsonc")):
        return "json"
    return "docker" if is_dockerfile(name) else "shell"


def is_dockerfile(name: str) -> bool:
    """Whether a file builds a container image."""
    lower = name.lower()
    return lower.startswith(("dockerfile", "containerfile")) or lower.endswith((".dockerfile", ".containerfile"))


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    for line in data.splitlines(keepends=True):
        yield start, line
        start += len(line)


def _comment_at(line: bytes, marks: bytes) -> int:
    """The offset of the comment in `line`, or -1: a mark at its start or after a blank, outside quotes."""
    if not any(mark in line for mark in marks):
        return -1
    quote = 0
    previous = ord(" ")
    for index, char in enumerate(line):
        if quote:
            quote = 0 if char == quote and previous != ord("\\") else quote
        elif char in b"\"'" and not chr(previous).isalnum():
            quote = char
        elif char in marks and chr(previous).isspace():
            return index
        previous = char
    return -1


def _of_shell(data: bytes) -> Spans:
    spans: Spans = []
    until: bytes | None = None
    said = False  # the line before was echoed text that goes on
    for start, line in _lines(data):
        stripped = line.strip()
        if until is not None or said or _SAID.match(stripped):
            said = until is None and stripped.endswith(b"\\")
            spans.append((start, start + len(line)))
            if stripped == until:
                until = None
            continue
        if _DIRECTIVE.match(stripped):
            continue
        at = _comment_at(line, b"#")
        if at >= 0:
            spans.append((start + at, start + len(line)))
        heredoc = _HEREDOC.search(line, 0, at if at >= 0 else len(line))
        until = heredoc.group(1) if heredoc else None
    return spans


def _of_yaml(data: bytes) -> Spans:
    spans: Spans = []
    column: int | None = None  # of the key whose block scalar is being read
    quote = b""
    for start, line in _lines(data):
        whole = (start, start + len(line))
        stripped = line.strip()
        if column is not None:
            if not stripped or len(line) - len(line.lstrip()) > column:
                spans.append(whole)
                continue
            column = None
        if quote:
            spans.append(whole)
            quote = b"" if quote in stripped else quote
            continue
        at = _comment_at(line, b"#")
        if at >= 0:
            spans.append((start + at, whole[1]))
            line = line[:at]
        block = _BLOCK_SCALAR.match(line.rstrip(b"\n"))
        if block:
            has_key = b":" in line
            lead = block.group(1)
            column = len(lead) if has_key else len(lead.rstrip().removesuffix(b"-"))
            continue
        opened = _OPEN_QUOTE.search(line)
        if opened and opened.group(1) not in line[opened.end() :]:
            quote = opened.group(1)
    return spans


def _of_toml(data: bytes) -> Spans:
    texts = [match.span() for match in _TOML_TEXT.finditer(data)]
    return sorted(texts + _comments(data, b"#"))


def _of_ini(data: bytes) -> Spans:
    return _comments(data, b"#;")


def _of_json(data: bytes) -> Spans:
    return [(start, start + len(line)) for start, line in _lines(data) if line.lstrip().startswith(b"//")]


def _of_docker(data: bytes) -> Spans:
    return [(start, start + len(line)) for start, line in _lines(data) if line.lstrip().startswith(b"#")]


def _comments(data: bytes, marks: bytes) -> Spans:
    found = ((start, line, _comment_at(line, marks)) for start, line in _lines(data))
    return [(start + at, start + len(line)) for start, line, at in found if at >= 0]


_STYLES: dict[str, Callable[[bytes], Spans]] = {
    "shell": _of_shell,
    "yaml": _of_yaml,
    "toml": _of_toml,
    "ini": _of_ini,
    "json": _of_json,
    "docker": _of_docker,
}
