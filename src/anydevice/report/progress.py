"""A progress bar on stderr for long work on a terminal; nothing, and nothing imported, otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PATIENCE = 0.5  # seconds; work that ends sooner shows no bar


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
        self._start = time.monotonic()
        self._stop: Callable[[], None] = lambda: None
        self._show: Callable[[int, int], None] | None = None

    def update(self, done: int, of: int) -> None:
        if self._show is None:
            if time.monotonic() - self._start < _PATIENCE:
                return
            self._begin(of)
        if self._show is not None:
            self._show(done, of)

    def stop(self) -> None:
        self._stop()

    def _begin(self, of: int) -> None:
        from rich.console import Console
        from rich.progress import Progress

        progress = Progress(console=Console(stderr=True), transient=True)
        task = progress.add_task(self._what, total=of)
        progress.start()
        self._stop = progress.stop
        self._show = lambda done, of: progress.update(task, completed=done, total=of)
