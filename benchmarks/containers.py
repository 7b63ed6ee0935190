"""Compare movers of batches: right or wrong on each case, and the time of common batches. Peers are those installed.

python benchmarks/containers.py
"""

from __future__ import annotations

import importlib
import sys
import timeit
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from container_cases import CASES, Case

TARGET = torch.device("meta")  # a second device that every machine has
HOME = torch.device("cpu")
Mover = Callable[[Any, torch.device], Any]
# name -> the module and the function that moves (data, device)
MOVERS = {
    "anydevice": ("anydevice", "to_device"),
    "accelerate": ("accelerate.utils", "send_to_device"),
    "fabric": ("lightning_fabric.utilities.apply_func", "move_data_to_device"),
    "torchtnt": ("torchtnt.utils.device", "copy_data_to_device"),
}


def batches() -> dict[str, Any]:
    """What is timed."""
    return {
        "pair": (torch.ones(3), torch.ones(3)),
        "dict of 3": {key: torch.ones(3) for key in "abc"},
        "8 dicts of 4": [{key: torch.ones(3) for key in "abcd"} for _ in range(8)],
    }


def installed() -> dict[str, Mover]:
    """The movers that can be imported; of the others it is said why not."""
    found: dict[str, Mover] = {}
    for name, (module, function) in MOVERS.items():
        try:
            found[name] = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError) as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    return found


def verdict(case: Case, move: Mover) -> str:
    """`yes`, `NO` for a wrong result without an error, or the error."""
    old = case.make()
    try:
        return "yes" if case.right(move(old, TARGET), old, TARGET) else "NO"
    except Exception as error:
        return type(error).__name__


def microseconds(move: Mover, data: Any, target: torch.device) -> float:
    """The best of fifteen rounds, for one move."""
    timer = timeit.Timer(lambda: move(data, target))
    return min(timer.repeat(repeat=15, number=300)) / 300 * 1e6


def main() -> None:
    """Print both tables."""
    warnings.simplefilter("ignore")
    movers = installed()
    width = max(len(case.name) for case in CASES) + 2
    print(f"{'case':{width}}" + "".join(f"{name:16}" for name in movers))
    scores = dict.fromkeys(movers, 0)
    for case in CASES:
        row = {name: verdict(case, move) for name, move in movers.items()}
        for name, answer in row.items():
            scores[name] += answer == "yes"
        print(f"{case.name:{width}}" + "".join(f"{answer:16}" for answer in row.values()))
    print(f"{'right, of ' + str(len(CASES)):{width}}" + "".join(f"{score:<16}" for score in scores.values()))
    for title, target in (("in place already, us", HOME), (f"moved to {TARGET}, us", TARGET)):
        print(f"\n{title}")
        for name, data in batches().items():
            times = [microseconds(move, data, target) for move in movers.values()]
            print(f"{name:{width}}" + "".join(f"{time:<16.2f}" for time in times))


if __name__ == "__main__":
    main()
