"""A program that was told to stay on the CPU, on a machine that has an accelerator: what sneaks onto it, line by line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anydevice.sim.memory import Ledger
    from anydevice.sim.simulation import Simulation

_SHOWN = 20


class Expectation:
    """Counts the allocations on devices by the line that makes them.

    Attributes:
        device: what the program is expected to stay on; None where nothing is expected.
        folder: where children leave what they have counted.
        rows: `path:line`, function, source and device -> how many tensors, and bytes.
        keep: what must live as long as the folder.
    """

    def __init__(self, device: str | None, folder: Path | None) -> None:
        self.device = device
        self.folder = folder
        self.rows: dict[tuple[str, str, str, str], tuple[int, int]] = {}
        self.keep: Any = None

    def watch(self, simulation: Simulation) -> None:
        """Count from now on."""
        for ledger in simulation.ledgers.values():
            ledger.allocate = self._counting(ledger, ledger.allocate)  # type: ignore[method-assign, assignment]

    def _counting(self, ledger: Ledger, allocate: Callable[[int], None]) -> Callable[[int], None]:
        from anydevice.patching.origin import current_line

        def counted(nbytes: int) -> None:
            line = current_line()
            where = ("", "", "") if line is None else (str(line), line.function, line.text)
            self._add((*where, str(ledger.device)), 1, nbytes)
            allocate(nbytes)

        return counted

    def _add(self, row: tuple[str, str, str, str], tensors: int, nbytes: int) -> None:
        before = self.rows.get(row, (0, 0))
        self.rows[row] = before[0] + tensors, before[1] + nbytes

    def leave(self) -> None:
        """Leave what was counted to the process that began."""
        if self.rows and self.folder is not None and self.folder.is_dir():
            rows = [[*row, *counts] for row, counts in self.rows.items()]
            (self.folder / f"{os.getpid()}.json").write_text(json.dumps(rows), encoding="utf-8")

    def tell(self) -> bool:
        """Say on stderr what was not expected; was there anything?"""
        if self.device is None:
            return False
        if self.folder is not None:
            for file in sorted(self.folder.glob("*.json")):
                for *row, tensors, nbytes in json.loads(file.read_text(encoding="utf-8")):
                    self._add(tuple(row), tensors, nbytes)
        if not self.rows:
            print(f"anydevice: the program stayed on the {self.device}, as expected", file=sys.stderr)
            return False
        print(f"anydevice: the program was expected to stay on the {self.device}; it did not:", file=sys.stderr)
        ordered = sorted(self.rows.items(), key=lambda item: -item[1][1])
        for (where, function, source, device), (tensors, nbytes) in ordered[:_SHOWN]:
            place = f"{where} in {function}" if where else "(no line of the program)"
            many = f"{tensors} tensor{'s' if tensors > 1 else ''}, {nbytes} bytes"
            print(f"  {place}: {many} on {device}", file=sys.stderr)
            if source:
                print(f"    {source}", file=sys.stderr)
        if len(ordered) > _SHOWN:
            print(f"  and {len(ordered) - _SHOWN} lines more", file=sys.stderr)
        return True
