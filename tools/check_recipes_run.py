"""Run recipes on untouched checkouts through `anydevice run`, and print a table.

    python tools/check_recipes_run.py RECIPES --mirrors DIR [--device cpu] [--only NAME ...]

RECIPES holds corpus.json and one program per repository, which gets the checkout and prints OK as its last line. Exit 1
when one does not pass.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LIMIT = 300  # seconds for one recipe


def export(mirrors: Path, repository: dict[str, Any], folder: Path) -> None:
    """Lay the repository's files, as of its commit, into the folder."""
    mirror = mirrors / str(repository["repo"]).replace("/", "+") / "repo"
    git = mirror / ".git" if (mirror / ".git").exists() else mirror
    reading = ["git", f"--git-dir={git}"]
    environment = {**os.environ, "GIT_NO_LAZY_FETCH": "1"}
    listed = subprocess.run(
        [*reading, "ls-tree", "-r", "-z", repository["commit"]], capture_output=True, check=False, env=environment
    )
    if listed.returncode:
        raise OSError(listed.stderr.decode(errors="replace").strip())
    for entry in filter(None, listed.stdout.split(b"\0")):
        about, _, name = entry.partition(b"\t")
        mode, kind, blob = about.decode().split()
        if kind != "blob" or mode == "120000":
            continue
        content = subprocess.run(
            [*reading, "cat-file", "blob", blob], capture_output=True, check=False, env=environment
        )
        if content.returncode == 0:  # a snapshot may lack its largest files
            path = folder / os.fsdecode(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.stdout)


def outcome(recipe: Path, checkout: Path, device: str, work: Path) -> tuple[bool, str]:
    """(passed, the last line of stderr that is not of the log) of one recipe."""
    command = [sys.executable, "-m", "anydevice", "run", "--device", device, str(recipe), str(checkout)]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=LIMIT, cwd=work, env=environment
        )
    except subprocess.TimeoutExpired:
        return False, f"not done after {LIMIT} s"
    passed = done.returncode == 0 and done.stdout.strip().endswith("OK")
    said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith(("anydevice", "  "))]
    return passed, "" if passed else (said or [f"status {done.returncode}"])[-1]


def main() -> int:
    """Print the table; 1 when a recipe does not pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", type=Path)
    parser.add_argument("--mirrors", type=Path, required=True, help="one folder 'owner+name' per repository")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="*", default=[], help="names that contain one of these")
    options = parser.parse_args()
    corpus = json.loads((options.recipes / "corpus.json").read_text(encoding="utf-8"))["repos"]
    failed = total = 0
    for repository in corpus:
        name = repository["name"]
        if not repository.get("recipe") or (options.only and not any(part in name for part in options.only)):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            checkout, work = Path(scratch, "checkout"), Path(scratch, "work")
            work.mkdir()
            try:
                export(options.mirrors, repository, checkout)
                passed, why = outcome(
                    (options.recipes / repository["recipe"]).resolve(), checkout, options.device, work
                )
            except OSError as error:
                passed, why = False, f"no checkout: {error}"
        total += 1
        failed += not passed
        print(f"{name:45} {repository['expect']:5} {'OK' if passed else 'FAILED':7} {why[:160]}", flush=True)
    print(f"{total - failed} of {total} pass on {options.device}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
