"""Takes from a line what loggers, launchers, containers and terminals put around it, and joins lines into one text."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass

_LONGEST_PREFIX = 160  # characters looked at for one prefix
_MOST_PREFIXES = 6  # `trainer-1 | 2026-11-30T10:00:00Z stderr F [rank0]: E   ` has five
_PREFIXES = re.compile(
    r"\s*(?:"
    r"\[?\d{4}-\d\d-\d\d[T ,_]\d\d[:-]\d\d[:-]\d\d[.,\d]{0,10}(?:Z|[+-]\d\d:?\d\d)?\]?[ :|-]*"  # ISO
    r"|\[?\d\d:\d\d:\d\d[.,\d]{0,10}\]?[ :|-]+"
    r"|\[?\d\d/\d\d/(?:\d\d){1,2} \d\d:\d\d:\d\d\]?[ :|-]*"
    r"|[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d (?:[\w.-]{1,60} )?[\w./-]{1,60}(?:\[\d{1,9}\])?: "  # syslog
    r"|\[?[IWEFDC]\d{4} \d\d:\d\d:\d\d[.\d]{0,10}(?: +\d{1,9})? [\w./-]{1,80}:\d+\]"  # glog
    r"|\[(?:rank|default|RANK|Rank|worker|gpu|node)[ _-]?\d{1,6}\]:?(?:<\w{1,10}>:?)?"
    r"|\[\d{1,4}\](?:<std\w{3}>)?: "
    r"|\d{1,5}: (?=\S)"
    r"|\([\w.-]{1,60} (?:pid|rank)=\d{1,9}[^)\n]{0,80}\)"
    r"|\(pid=\d{1,9}[^)\n]{0,80}\)"
    r"|[\w.-]{1,60} +\| "  # docker compose
    r"|std(?:err|out) [FP] "  # kubernetes
    r"|#\d{1,4} \d{1,6}\.\d{1,6} "  # docker build
    r"|\[?(?:DEBUG|INFO|WARN|ERROR|CRITICAL|FATAL|TRACE)\]?(?::[\w.]{1,60}:| *[:|-] *|  *)"
    r"(?:\w{1,60}(?:\.\w{1,60}){1,8} ?: )?"
    r"|E   +"  # pytest
    r"|[│┃║|>╭╰]+ +"
    r")"
)
_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "\u00a0": " ", "\r": " ", "\ufeff": " "})
_ENTITIES = (("&#39;", "'"), ("&#x27;", "'"), ("&quot;", '"'), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))
_FIELDS = ("log", "message", "msg", "text", "event", "error", "exc_info")  # of a line that is a JSON object


@dataclass(frozen=True)
class Joined:
    """Lines joined by single spaces, and the way back."""

    text: str
    starts: tuple[int, ...]  # where each line begins in `text`
    lines: tuple[str, ...]

    def index(self, offset: int) -> int:
        """The index of the line that holds this offset."""
        return bisect_right(self.starts, offset) - 1


def join(text: str) -> Joined:
    """The lines of `text`, bared and joined; a message that a terminal has wrapped is in one piece again."""
    lines = [bare(line) for line in text.split("\n")]
    starts, at = [], 0
    for line in lines:
        starts.append(at)
        at += len(line) + 1 if line else 0
    return Joined(" ".join(line for line in lines if line), tuple(starts), tuple(lines))


def bare(line: str) -> str:
    """One line without prefix, frame and repeated spaces, and with plain quotes."""
    if line.startswith("{") and line.rstrip().endswith("}"):
        line = _field(line)
    at = 0
    for _ in range(_MOST_PREFIXES):
        match = _PREFIXES.match(line, at, at + _LONGEST_PREFIX)
        if match is None or match.end() == at:
            break
        at = match.end()
    line = line[at:].translate(_QUOTES)
    if "&" in line:
        for entity, character in _ENTITIES:
            line = line.replace(entity, character)
    return " ".join(line.rstrip(" │┃║|╮╯").split())


def _field(line: str) -> str:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return line
    texts = [found[name] for name in _FIELDS if isinstance(found.get(name), str)] if isinstance(found, dict) else []
    return " ".join(texts) if texts else line
