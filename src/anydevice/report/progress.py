"""A progress bar on stderr for long work on a terminal; nothing, and nothing imported, otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PATIENCE = 0.5  # seconds; work that ends sooner shows no bar
_PAUSE = 0.1  # seconds between two looks of the bar


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A function to call with (done, of); the bar shows once the work has lasted half a second."""
    if not sys.stderr.isatty():
        yield lambda done, of: None
        return
    bar = _Bar(what)
    try:
        yield bar.update
    finally:
        bar.stop()


class _Bar:
    def __init__(self, what: str) -> None:
        self._what = what
        self._next = time.monotonic() + _PATIENCE
        self._stop: Callable[[], None] = lambda: None
        self._show: Callable[[int, int], None] | None = None

    def update(self, done: int, of: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _PAUSE
        if self._show is None:
            self._show = self._begin()
        self._show(done, of)

    def stop(self) -> None:
        self._stop()

    def _begin(self) -> Callable[[int, int], None]:
        from rich.console import Console
        from rich.progress import Progress

        # Without the thread that would refresh the bar: worker processes may be forked while it shows.
        progress = Progress(console=Console(stderr=True), transient=True, auto_refresh=False)
        task = progress.add_task(self._what, total=None)
        progress.start()
        self._stop = progress.stop
        return lambda done, of: progress.update(task, completed=done, total=of, refresh=True)
