"""Time `anydevice scan` on a large installed package against `ruff check`, and against TorchFix per byte.

    python benchmarks/scan_speed.py [--tree FOLDER] [--runs 5] [--torchfix]

Without --tree the `diffusers` wheel is downloaded into a temporary folder (it is not installed). All commands run in
turn, so that a machine whose speed drifts treats them alike; medians of wall-clock seconds are printed. TorchFix
takes minutes and is only run, on a sample of files, with --torchfix. Peak memory and growth are measured with --memory.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

SAMPLE = 40  # files given to TorchFix, which needs about a minute for them


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tree", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--torchfix", action="store_true")
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        tree = options.tree or _diffusers(folder)
        size = sum(f.stat().st_size for f in tree.rglob("*.py"))
        print(
            f"tree: {sum(1 for _ in tree.rglob('*.py'))} Python files, {size / 1e6:.1f} MB; {os.cpu_count()} processors"
        )
        _against_ruff(tree, folder, options.runs)
        if options.torchfix:
            _against_torchfix(tree, folder)
        if options.memory:
            _memory(tree, folder)
        _startup(options.runs)
    return 0


def _diffusers(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), "diffusers"]
    subprocess.run(command, check=True)
    wheel = next(folder.glob("diffusers-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "diffusers")
    return folder / "diffusers"


def _timed(command: list[str], **environment: str) -> float:
    start = time.perf_counter()
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, **environment}, check=False
    )
    seconds = time.perf_counter() - start
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command} failed: {done.stderr.decode()}")
    return seconds


def _tool(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else name


def _against_ruff(tree: Path, folder: Path, runs: int) -> None:
    scan = [_tool("anydevice"), "scan", "--format", "json", str(tree)]
    ruff = [_tool("ruff"), "check", "--quiet", "--no-cache", str(tree)]
    times: dict[str, list[float]] = {"cold": [], "ruff": [], "warm": []}
    for number in range(runs + 1):
        cache = folder / f"cache{number}"
        cold = _timed(scan, ANYDEVICE_CACHE_DIR=str(cache))
        bare = _timed(ruff)
        warm = _timed(scan, ANYDEVICE_CACHE_DIR=str(cache))
        shutil.rmtree(cache, ignore_errors=True)
        if number:  # the first round fills the page cache
            times["cold"].append(cold)
            times["ruff"].append(bare)
            times["warm"].append(warm)
    cold_, ruff_, warm_ = (statistics.median(times[key]) for key in ("cold", "ruff", "warm"))
    print(f"anydevice scan, cold cache: {cold_:.2f} s ({min(times['cold']):.2f} to {max(times['cold']):.2f})")
    print(f"ruff check, no cache:       {ruff_:.2f} s ({min(times['ruff']):.2f} to {max(times['ruff']):.2f})")
    print(f"anydevice scan, warm cache: {warm_:.2f} s ({min(times['warm']):.2f} to {max(times['warm']):.2f})")
    print(
        f"cold / ruff = {cold_ / ruff_:.2f} (goal: at most 1); warm / cold = {warm_ / cold_:.2f} (goal: at most 0.33)"
    )


def _against_torchfix(tree: Path, folder: Path) -> None:
    sample = folder / "sample"
    sample.mkdir()
    files = sorted(f for f in tree.rglob("*.py") if b"torch" in f.read_bytes())[:: max(1, 900 // SAMPLE)][:SAMPLE]
    for number, file in enumerate(files):
        shutil.copy(file, sample / f"{number}_{file.name}")
    size = sum(f.stat().st_size for f in files)
    own = _timed([_tool("anydevice"), "scan", "--no-cache", "-j", "1", str(tree)]) / sum(
        f.stat().st_size for f in tree.rglob("*.py")
    )
    theirs = _timed([_tool("torchfix"), "-j", "1", str(sample)]) / size
    print(f"per byte, one process: TorchFix takes {theirs / own:.0f} times as long (goal: at least 100)")


def _memory(tree: Path, folder: Path) -> None:
    """Peak memory on four copies of the tree, and the time for one, two and four."""
    seconds = []
    for copies in (1, 2, 4):
        big = folder / f"copies{copies}"
        for number in range(copies):
            shutil.copytree(tree, big / str(number))
        seconds.append(_timed([_tool("anydevice"), "scan", "--no-cache", "--format", "json", str(big)]))
        size = sum(f.stat().st_size for f in big.rglob("*.py")) / 1e6
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"{size:.0f} MB: {seconds[-1]:.2f} s; largest process so far {peak:.0f} MB (goal: 300 MB at 100 MB)")
        shutil.rmtree(big)


def _startup(runs: int) -> None:
    bare = statistics.median(_timed([sys.executable, "-c", "pass"]) for _ in range(runs * 4))
    version = statistics.median(_timed([_tool("anydevice"), "--version"]) for _ in range(runs * 4))
    imported = statistics.median(_timed([sys.executable, "-c", "import anydevice"]) for _ in range(runs * 4))
    print(
        f"python -c pass {bare * 1e3:.0f} ms; anydevice --version {version / bare:.2f} times, import anydevice "
        f"{imported / bare:.2f} times that (goal: at most 3)"
    )


if __name__ == "__main__":
    sys.exit(main())
