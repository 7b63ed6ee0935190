"""What was done for the program, by its own lines: intercepted calls, answers that are made up, and who was told what."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType

from anydevice.patching.origin import line_of, user_frame

CHANGED, FAKED = "changed", "faked"


@dataclass(frozen=True)
class Entry:
    """One thing done at one line.

    Attributes:
        path: the file of the program.
        line: its line, from 1.
        kind: `changed` (done on the other device), `faked` (an answer that this machine has none for).
        what: the name that the program used.
        result: what it got.
        times: how often.
    """

    path: str
    line: int
    kind: str
    what: str
    result: str
    times: int


class Log:
    """Counts what is done, by instruction of the program; lines are looked up only at the end."""

    def __init__(self) -> None:
        # by the identity of code, which takes long to hash; it is kept, so that no other takes its place
        self._counts: dict[tuple[int, int, str, str], list[int]] = {}
        self._about: dict[tuple[int, int, str, str], tuple[CodeType, str]] = {}

    def note(self, kind: str, what: str, result: str) -> None:
        """Count one thing done for the innermost line of the program."""
        frame = user_frame(sys._getframe(1))
        if frame is None:
            return
        key = (id(frame.f_code), frame.f_lasti, what, result)
        count = self._counts.get(key)
        if count is None:
            self._counts[key] = [1]
            self._about[key] = (frame.f_code, kind)
        else:
            count[0] += 1

    def entries(self) -> list[Entry]:
        """All that was noted, in the order of files and lines; instructions of one line are added up."""
        added: dict[tuple[str, int, str, str, str], int] = {}
        for counted, (times,) in list(self._counts.items()):
            _, instruction, what, result = counted
            code, kind = self._about[counted]
            line = line_of(code, instruction)
            key = (line.path, line.number, kind, what, result)
            added[key] = added.get(key, 0) + times
        return [Entry(*key, times) for key, times in sorted(added.items())]

    def text(self, device: str) -> str:
        """The log for people: empty where nothing was done."""
        entries = self.entries()
        if not entries:
            return ""
        lines = [f"anydevice run: sent to '{device}' at {len({(e.path, e.line) for e in entries})} lines"]
        for entry in entries:
            often = f" ({entry.times} times)" if entry.times > 1 else ""
            lines.append(f"  {entry.path}:{entry.line}: {entry.kind} {entry.what} -> {entry.result}{often}")
        return "\n".join(lines)

    def write(self, path: Path, device: str) -> None:
        """The log for machines.

        Raises:
            OSError: the file cannot be written.
        """
        content = {"device": device, "entries": [asdict(entry) for entry in self.entries()]}
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
