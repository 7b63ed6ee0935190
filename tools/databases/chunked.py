"""Work on many names in processes of their own: one that ends its process, or never ends, costs nobody else's answer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).parent.parent


@dataclass(frozen=True)
class Lost:
    """A name that has no answer, and why."""

    why: str


def say(name: str, answer: Any) -> None:
    """In the process: the answer to one name."""
    print(json.dumps([name, answer]), flush=True)


def answers(
    command: list[str], names: list[str], *, jobs: int, size: int, limit: Callable[[int], float]
) -> Iterator[tuple[str, Any]]:
    """(name, answer or `Lost`) of every name, from `jobs` processes at a time that `say` what they find.

    Args:
        command: takes up to `size` names at its end.
        limit: seconds that a process may take for so many names.
    """
    size = max(1, min(size, -(-len(names) // jobs)))
    chunks = [names[start : start + size] for start in range(0, len(names), size)]
    with ThreadPoolExecutor(jobs) as pool:
        for part in pool.map(lambda chunk: list(_of_chunk(command, chunk, limit)), chunks):
            yield from part


def _of_chunk(command: list[str], names: list[str], limit: Callable[[int], float]) -> Iterator[tuple[str, Any]]:
    rest = names
    while rest:
        try:
            done = subprocess.run(
                [*command, *rest], capture_output=True, text=True, check=False, timeout=limit(len(rest)), cwd=TOOLS
            )
            out, why = done.stdout, f"the process ended with {done.returncode}: {done.stderr.strip()[-300:]}"
        except subprocess.TimeoutExpired as late:
            out, why = (late.stdout or b"").decode(errors="replace"), "takes too long"
        found = dict(json.loads(line) for line in out.splitlines() if line.startswith('["') and line.endswith("]"))
        yield from found.items()
        left = [name for name in rest if name not in found]
        if left:
            yield left[0], Lost(why)
        rest = left[1:]
