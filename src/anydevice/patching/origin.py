"""Which line of the user's program is running: the frames of PyTorch, anydevice and installed packages are passed over."""

from __future__ import annotations

import linecache
import os
import site
import sys
import sysconfig
from dataclasses import dataclass
from types import CodeType, FrameType

import torch

_LIBRARIES = tuple(
    {
        os.path.join(path, "")
        for path in (
            *sysconfig.get_paths().values(),
            *site.getsitepackages(),
            site.getusersitepackages(),
            os.path.dirname(os.path.dirname(torch.__file__)),
            os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
        )
        if path and path != sys.prefix
    }
)

# file name of a code object -> does it belong to the user's program; strings keep their hash, code objects do not
_is_user: dict[str, bool] = {}


@dataclass(frozen=True)
class Line:
    """A line of the user's program."""

    path: str
    number: int
    function: str

    def __str__(self) -> str:
        return f"{self.path}:{self.number}"

    @property
    def text(self) -> str:
        """The source of the line, stripped; empty where it cannot be read."""
        return linecache.getline(self.path, self.number).strip()


def _belongs_to_user(path: str) -> bool:
    return not (path.startswith(_LIBRARIES) or (path.startswith("<") and path not in ("<stdin>", "<string>")))


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's program at or above `frame`; the outermost frame where there is none."""
    while frame is not None:
        path = frame.f_code.co_filename
        mine = _is_user.get(path)
        if mine is None:
            mine = _is_user[path] = _belongs_to_user(path)
        if mine:
            return frame
        frame = frame.f_back
    return None


def line_of(code: CodeType, instruction: int) -> Line:
    """The line that `code` was at when its last instruction was at byte `instruction` (`frame.f_lasti`)."""
    number = code.co_firstlineno
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            number = line
            break
    return Line(code.co_filename, number, code.co_name)


def current_line() -> Line | None:
    """The line of the user's program that is running now."""
    frame = user_frame(sys._getframe(1))
    return None if frame is None else Line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
