"""Run the bug cases that a manifest describes in simulated worlds, and compare with what it says was seen.

    python tools/check_bug_worlds.py FOLDER/manifest.json [--only NAME ...]

`observed_cpu...` is what the world `none` must give, `observed_probe` what each world that it names must. Outcome and
line must agree; the type and text of the error are printed. Exit 1 when something differs.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT = 120  # seconds for one case in one world


@dataclass(frozen=True)
class Seen:
    """How a run ended."""

    line: int | None
    error: str


def run(path: Path, world: str) -> Seen:
    """Run a case; the line is the innermost of the case's own file."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "anydevice", "sim", "--as", world, str(path)],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            cwd=folder,
            check=False,
        )
    if done.returncode == 0:
        return Seen(None, "")
    lines = re.findall(rf'File "[^"]*{re.escape(path.name)}", line (\d+)', done.stderr)
    errors = [
        text for text in done.stderr.splitlines() if re.match(r"[\w.]+(Error|Exception|Simulated|Interrupt)\b", text)
    ]
    return Seen(int(lines[-1]) if lines else None, errors[-1] if errors else done.stderr[-200:])


def expected(case: dict[str, Any]) -> dict[str, int | None]:
    """World -> the line that must raise, None where the case must run through."""
    seen = {"none": next(value for key, value in case.items() if key.startswith("observed_cpu"))}
    seen.update({world.split()[0]: value for world, value in case["observed_probe"].items()})
    return {
        world: None if value["outcome"] == "silent" else int(value["line"])
        for world, value in seen.items()
        if value.get("outcome") in ("silent", "error")
    }


def main() -> int:
    """Print the table; 1 when something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path, help="manifest.json, or the folder that holds it")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose name begins so")
    parser.add_argument("--world", action="append", default=[], help="run these worlds too, and print what happens")
    options = parser.parse_args()
    manifest: Path = options.manifest / "manifest.json" if options.manifest.is_dir() else options.manifest
    wrong = runs = 0
    for case in json.loads(manifest.read_text(encoding="utf-8")):
        if options.only and not case["file"].startswith(tuple(options.only)):
            continue
        wanted = expected(case)
        print(case["file"])
        for world in dict.fromkeys([*wanted, *options.world]):
            seen = run(manifest.parent / case["file"], world)
            if world in wanted:
                runs += 1
                wrong += wanted[world] != seen.line
                mark = "ok" if wanted[world] == seen.line else f"WANTED L{wanted[world]}"
            else:
                mark = "-"
            print(f"  {world:6} {mark:12} L{seen.line}  {seen.error[:160]}")
    print(f"{runs - wrong} of {runs} runs as seen")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
