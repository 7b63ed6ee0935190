"""Check the simulator with PyTorch's own databases: operators (`op_db`), modules (`module_db`), optimizers (`optim_db`).

    python tools/check_databases.py DATABASE [--only NAME ...] [--jobs N] [--samples N] [--json FILE]

In the world `cuda`: forward results and gradients equal those of the CPU and are on the device, and moving one input to
the CPU is refused just where FakeTensorMode with fake CUDA tensors refuses it. Optimizers take steps instead, across a
checkpoint, and keep their state where FakeTensorMode says. Where it is known and right that an entry differs,
tests/sim/database_exceptions.json says why. Exit 1 for a failure that is not in there, or for an entry that no longer
fails.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

from databases.chunked import Lost, answers, say

EXCEPTIONS = Path(__file__).parent.parent / "tests" / "sim" / "database_exceptions.json"
DATABASES = ("operators", "modules", "optimizers")
CHUNK = 25  # entries per process: loading the database takes some seconds
LIMIT = 120.0  # seconds for one entry

Verdict = dict[str, Any]


def work(database: str, names: list[str], samples: int) -> None:
    """In a process of its own."""
    import torch

    examine = importlib.import_module(f"databases.{database}").examine
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in names:
        verdict = examine(name, samples)
        say(name, {"compared": verdict.compared, "failures": verdict.failures})


def check(database: str, names: list[str], samples: int, jobs: int) -> list[Verdict]:
    """All verdicts; an entry that ends its process, or takes too long, is itself the failure."""
    command = [sys.executable, __file__, database, "--samples", str(samples), "--work"]
    found = answers(command, names, jobs=jobs, size=CHUNK, limit=lambda many: LIMIT + 10 * many)
    return [_lost(name, answer) if isinstance(answer, Lost) else {"name": name, **answer} for name, answer in found]


def _lost(name: str, lost: Lost) -> Verdict:
    return {"name": name, "compared": {"ends": 0}, "failures": {"ends": [lost.why]}}


def figures(verdicts: list[Verdict], known: dict[str, dict[str, str]]) -> str:
    """`forward n/N, backward n/N, mixed n/N`: entries right, of those that the check applies to."""
    parts = []
    for kind in dict.fromkeys(kind for verdict in verdicts for kind in verdict["compared"]):
        applies = [v for v in verdicts if v["compared"].get(kind) or v["failures"].get(kind)]
        right = sum(not v["failures"].get(kind) for v in applies)
        listed = sum(v["name"] in known.get(kind, {}) for v in applies)
        parts.append(f"{kind} {right}/{len(applies)}" + (f" ({listed} listed)" if listed else ""))
    return ", ".join(parts)


def complaints(verdicts: list[Verdict], known: dict[str, dict[str, str]], *, whole: bool) -> list[str]:
    """Failures that no exception explains, and, where the `whole` of each entry was tried, exceptions that do not fail."""
    out = []
    for verdict in sorted(verdicts, key=lambda verdict: str(verdict["name"])):
        for kind in verdict["compared"]:
            failures = verdict["failures"].get(kind, [])
            listed = verdict["name"] in known.get(kind, {})
            if failures and not listed:
                out += [f"{verdict['name']}: {kind}: {failure}" for failure in failures[:3]]
            elif whole and listed and not failures:
                out.append(f"{verdict['name']}: {kind}: listed as an exception, but right: take it off the list")
    return out


def main() -> int:
    """Print the failures and the figures; 1 when something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", choices=DATABASES)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these (name.variant), or all that begin so with *")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--samples", type=int, default=0, help="at most so many of each (default: all)")
    parser.add_argument(
        "--exceptions", type=Path, default=EXCEPTIONS, metavar="FILE", help="instead of those of the tests"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all verdicts there")
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.database, options.work, options.samples)
        return 0
    names = chosen(options.database, options.only)
    if not names:
        parser.error(f"none of the {options.database} is called {' '.join(options.only)}")
    verdicts = check(options.database, names, options.samples, options.jobs)
    known = json.loads(options.exceptions.read_text(encoding="utf-8"))[options.database]
    wrong = complaints(verdicts, known, whole=not options.samples)
    print(*wrong, sep="\n")
    print(figures(verdicts, known))
    if options.json:
        options.json.write_text(json.dumps(verdicts, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong else 0


def chosen(database: str, wanted: list[str] | None) -> list[str]:
    """The names of the database that are asked for."""
    names = list(importlib.import_module(f"databases.{database}").database())
    if wanted is None:
        return names
    whole = {name for name in wanted if not name.endswith("*")}
    begins = tuple(name.removesuffix("*") for name in wanted if name.endswith("*"))
    return [name for name in names if name in whole or (begins and name.startswith(begins))]


if __name__ == "__main__":
    sys.exit(main())
