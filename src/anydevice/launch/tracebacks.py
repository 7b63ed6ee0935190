"""Keeps anydevice's own frames out of what a program shows of its errors."""

from __future__ import annotations

import sys
import threading
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_OURS = str(Path(__file__).parents[1])


def hide_ours() -> None:
    """For the rest of the process: uncaught errors, those of threads, and what the program itself prints or logs."""
    threads, shown = threading.excepthook, sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, frames: types.TracebackType | None) -> None:
        _strip(error)
        shown(kind, error, _theirs(frames))

    def of_threads(arguments: Any) -> None:
        if arguments.exc_value is not None:
            _strip(arguments.exc_value)
            frames = _theirs(arguments.exc_traceback)
            arguments = threading.ExceptHookArgs((arguments.exc_type, arguments.exc_value, frames, arguments.thread))
        threads(arguments)

    sys.excepthook = excepthook
    threading.excepthook = of_threads
    for name in ("walk_tb", "_walk_tb_with_full_positions"):  # what `traceback`, and with it `logging`, goes through
        walk = getattr(traceback, name, None)
        if walk is not None:
            setattr(traceback, name, _walking(walk))


def show(error: BaseException) -> None:
    """Report an uncaught exception as Python does."""
    sys.excepthook(type(error), error, error.__traceback__)


def _walking(walk: Any) -> Any:
    def theirs(frames: types.TracebackType | None) -> Iterator[Any]:
        for step in walk(frames):
            if not _is_ours(step[0]):
                yield step

    return theirs


def _strip(error: BaseException) -> None:
    """Take the frames out of an exception and of all that are linked to it."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        link = waiting.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        link.__traceback__ = _theirs(link.__traceback__)
        waiting += [link.__cause__, link.__context__, *getattr(link, "exceptions", ())]


def _theirs(frames: types.TracebackType | None) -> types.TracebackType | None:
    kept = []
    while frames is not None:
        if not _is_ours(frames.tb_frame):
            kept.append(frames)
        frames = frames.tb_next
    chain: types.TracebackType | None = None
    for frame in reversed(kept):
        chain = types.TracebackType(chain, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return chain


def _is_ours(frame: types.FrameType) -> bool:
    path = frame.f_code.co_filename
    return path.startswith(_OURS) and not path.startswith(_EXAMPLES)


_EXAMPLES = str(Path(_OURS, "cli", "demo_project"))  # which users run
