"""Check the simulator with PyTorch's own operator database (`op_db`, about 700 operators).

    python tools/check_operators.py [--only NAME ...] [--jobs N] [--samples N] [--json FILE]

In the world `cuda`: forward results and gradients equal those of the CPU and are on the device, and moving one input to
the CPU is refused just where FakeTensorMode with fake CUDA tensors refuses it. Where it is known and right that an
operator differs, tests/sim/opinfo_exceptions.json says why. Exit 1 for a failure that is not in there, or for an entry
that no longer fails.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

EXCEPTIONS = Path(__file__).parent.parent / "tests" / "sim" / "opinfo_exceptions.json"
CHECKS = ("forward", "backward", "mixed")
CHUNK = 25  # operators per process: loading the database takes some seconds
LIMIT = 120.0  # seconds for one operator

Verdict = dict[str, Any]


def work(names: list[str], samples: int) -> None:
    """In a process of its own: one line of JSON per operator."""
    import torch

    from operator_comparison import examine

    torch.set_num_threads(1)
    for name in names:
        print(json.dumps({"started": name}), flush=True)
        verdict = examine(name, samples)
        print(json.dumps({"name": name, "compared": verdict.compared, "failures": verdict.failures}), flush=True)


def check(names: list[str], samples: int) -> list[Verdict]:
    """The verdicts of a chunk; an operator that ends its process, or takes too long, is itself the failure."""
    verdicts: list[Verdict] = []
    rest = names
    while rest:
        command = [sys.executable, __file__, "--samples", str(samples), "--work", *rest]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                timeout=LIMIT + 10 * len(rest),
                cwd=Path(__file__).parent,
            )
            out, why = done.stdout, f"the process ended with {done.returncode}: {done.stderr.strip()[-300:]}"
        except subprocess.TimeoutExpired as error:
            out, why = (error.stdout or b"").decode(errors="replace"), "takes too long"
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{") and line.endswith("}")]
        verdicts += [line for line in lines if "name" in line]
        finished = {line["name"] for line in lines if "name" in line}
        left = [name for name in rest if name not in finished]
        if left:
            verdicts.append({"name": left[0], "compared": dict.fromkeys(CHECKS, 0), "failures": {"forward": [why]}})
        rest = left[1:]
    return verdicts


def figures(verdicts: list[Verdict], known: dict[str, dict[str, str]]) -> str:
    """`forward n/N, backward n/N, mixed n/N`: operators right, of those that the check applies to."""
    parts = []
    for kind in CHECKS:
        applies = [v for v in verdicts if v["compared"][kind] or v["failures"].get(kind)]
        right = sum(not v["failures"].get(kind) for v in applies)
        listed = sum(v["name"] in known.get(kind, {}) for v in applies)
        parts.append(f"{kind} {right}/{len(applies)}" + (f" ({listed} listed)" if listed else ""))
    return ", ".join(parts)


def complaints(verdicts: list[Verdict], known: dict[str, dict[str, str]]) -> list[str]:
    """Failures that no exception explains, and exceptions that no longer fail."""
    out = []
    for verdict in sorted(verdicts, key=lambda verdict: str(verdict["name"])):
        for kind in CHECKS:
            failures = verdict["failures"].get(kind, [])
            listed = verdict["name"] in known.get(kind, {})
            if failures and not listed:
                out += [f"{verdict['name']}: {kind}: {failure}" for failure in failures[:3]]
            elif listed and not failures:
                out.append(f"{verdict['name']}: {kind}: listed as an exception, but right: take it off the list")
    return out


def main() -> int:
    """Print the failures and the figures; 1 when something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="these operators (name.variant), or all that begin so with *"
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--samples", type=int, default=0, help="at most so many of each operator (default: all)")
    parser.add_argument(
        "--exceptions", type=Path, default=EXCEPTIONS, metavar="FILE", help="instead of those of the tests"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all verdicts there")
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.samples)
        return 0
    names = chosen(options.only)
    if not names:
        parser.error(f"no operator is called {' '.join(options.only)}")
    size = min(CHUNK, -(-len(names) // options.jobs))
    chunks = [names[start : start + size] for start in range(0, len(names), size)]
    with ThreadPoolExecutor(options.jobs) as pool:
        verdicts = [v for part in pool.map(lambda chunk: check(chunk, options.samples), chunks) for v in part]
    known = json.loads(options.exceptions.read_text(encoding="utf-8"))
    wrong = complaints(verdicts, known)
    print(*wrong, sep="\n")
    print(figures(verdicts, known))
    if options.json:
        options.json.write_text(json.dumps(verdicts, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong else 0


def chosen(wanted: list[str] | None) -> list[str]:
    """The operators of the database that are asked for."""
    from operator_comparison import database

    names = list(database())
    if wanted is None:
        return names
    whole = {name for name in wanted if not name.endswith("*")}
    begins = tuple(name.removesuffix("*") for name in wanted if name.endswith("*"))
    return [name for name in names if name in whole or (begins and name.startswith(begins))]


if __name__ == "__main__":
    sys.exit(main())
