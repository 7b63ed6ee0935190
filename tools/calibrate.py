"""Ask a real accelerator what it makes of tensors on several devices, keep its answers, and compare the simulator's.

    python tools/calibrate.py record [KIND] [--out FILE] [--jobs N]      on a machine with an accelerator
    python tools/calibrate.py compare FILE [--only NAME ...] [--jobs N]  anywhere

`record` takes less than five minutes on one GPU (`--jobs 4`) and writes tests/sim/calibration/KIND.json, which the tests
compare. The cases: calls of tools/calibration/placement.py, and every operator of `op_db` with each of its tensors in
turn on the CPU. Words are compared for the placement cases where the release of PyTorch is the recorded one; otherwise
whether it ran and where the result was, was refused for its devices, or failed. `compare` ends with 1 where answers
differ. With `--world`, `record` asks the simulator, to try the tool itself.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

from anydevice.sim import simulate
from calibration.answering import alike
from databases.chunked import Lost, answers, say

FOLDER = Path(__file__).parent.parent / "tests" / "sim" / "calibration"
PARTS = ("placement", "operators")
CHUNK = 40  # a kernel that spoils the device for its process spoils no more answers than these
LIMIT = 240.0  # seconds for a chunk


def work(part: str, kind: str, world: str, names: list[str]) -> None:
    """In a process of its own."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    module = importlib.import_module(f"calibration.{part}")
    with simulate(world) if world else contextlib.nullcontext():
        for name in names:
            say(name, module.answers(name, f"{kind}:0"))


def ask(part: str, kind: str, world: str, names: list[str], jobs: int) -> dict[str, Any]:
    """The answers of one part by name; one that ends its process says so."""
    command = [sys.executable, __file__, "work", kind, "--part", part, "--world", world, "--only"]
    found = answers(command, names, jobs=jobs, size=CHUNK, limit=lambda many: LIMIT)
    return {name: [f"Lost: {answer.why}"] if isinstance(answer, Lost) else answer for name, answer in found}


def names_of(part: str, count: int, only: list[str] | None) -> list[str]:
    """The names of a part, on a machine with `count` devices."""
    return [name for name in importlib.import_module(f"calibration.{part}").names(count) if not only or name in only]


def record(kind: str, world: str, only: list[str] | None, jobs: int) -> dict[str, Any]:
    """All answers, and of what.

    Raises:
        SystemExit: there is no such device here.
    """
    module = torch.get_device_module(kind)
    with simulate(world) if world else contextlib.nullcontext():
        count = module.device_count() if module.is_available() else 0
        if not count:
            raise SystemExit(f"calibrate: PyTorch finds no {kind} device here; run this on a machine that has one")
        named = module.get_device_name(0) if hasattr(module, "get_device_name") else kind
    return {
        "kind": kind,
        "world": world,
        "count": count,
        "device": named,
        "torch": torch.__version__,
        "recorded": datetime.date.today().isoformat(),
        "answers": {part: ask(part, kind, world, names_of(part, count, only), jobs) for part in PARTS},
    }


def compare(recorded: dict[str, Any], only: list[str] | None, jobs: int) -> list[str]:
    """A line for each answer of the simulator that is another than the recorded one."""
    kind, count = recorded["kind"], recorded["count"]
    world = recorded["world"] or (f"{kind}:{count}" if count > 1 else kind)
    same_release = recorded["torch"].split(".")[:2] == torch.__version__.split(".")[:2]
    lines = []
    for part in PARTS:
        theirs = {name: text for name, text in recorded["answers"][part].items() if not only or name in only}
        ours = ask(part, kind, world, [name for name in names_of(part, count, only) if name in theirs], jobs)
        words = same_release and part == "placement"
        wrong = 0
        for name, answers_there in theirs.items():
            differ = _different(answers_there, ours.get(name, []), words=words)
            wrong += bool(differ)
            lines += [f"{part}: {name}: {line}" for line in differ]
        print(f"{part}: {len(theirs) - wrong} of {len(theirs)} alike")
    return lines


def _different(there: list[str], here: list[str], *, words: bool) -> list[str]:
    if len(there) != len(here):
        return [f"{len(here)} answers where there are {len(there)}"]
    pairs = zip(there, here, strict=True)
    return [f"simulated {b!r}, real {a!r}" for a, b in pairs if not alike(a, b, words=words)]


def main() -> int:
    """Record, or compare and print what differs; 1 when something does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("record", "compare", "work"))
    parser.add_argument("what", nargs="?", default="cuda", metavar="KIND|FILE", help="cuda, mps, xpu; or a recording")
    parser.add_argument("--out", type=Path, metavar="FILE")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--world", default="", help="record the simulator's own answers in this world")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.action == "work":
        work(options.part, options.what, options.world, options.only)
        return 0
    if options.action == "record":
        target = options.out or FOLDER / f"{options.what}.json"
        found = record(options.what, options.world, options.only, options.jobs)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(f"{sum(map(len, found['answers'].values()))} cases written to {target}")
        return 0
    lines = compare(json.loads(Path(options.what).read_text(encoding="utf-8")), options.only, options.jobs)
    print(*lines, sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
