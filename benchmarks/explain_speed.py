"""Time `anydevice explain`: start-up on a message, and logs of 100 MB, and a hostile one of 10.

    python benchmarks/explain_speed.py [--runs 5] [--megabytes 100]

The hostile log holds all literals of all patterns in every block, so that nothing is skipped.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from anydevice.doctor.facts.signatures import signatures

_MESSAGE = "AssertionError: Torch not compiled with CUDA enabled"


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=100)
    options = parser.parse_args()
    print(f"start-up, one message: {statistics.median(_timed(_MESSAGE) for _ in range(options.runs)):.3f} s")
    print(f"Python itself:         {statistics.median(_bare() for _ in range(options.runs)):.3f} s")
    with tempfile.TemporaryDirectory() as folder:
        for name, piece in (("ordinary", _ordinary()), ("coloured", _coloured()), ("hostile", _hostile())):
            log = Path(folder) / f"{name}.log"
            megabytes = options.megabytes / (10 if name == "hostile" else 1)
            with log.open("w", encoding="utf-8") as stream:
                for _ in range(int(megabytes * 1_000_000) // len(piece.encode()) + 1):
                    stream.write(piece)
                stream.write(_MESSAGE + "\n")
            seconds = _timed(str(log))
            size = log.stat().st_size / 1e6
            print(f"{name} log, {size:.0f} MB: {seconds:.1f} s, {size / seconds:.0f} MB/s")
    return 0


def _timed(argument: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "anydevice", "explain", argument], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def _bare() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", ""], check=True)
    return time.perf_counter() - began


def _ordinary() -> str:
    return "".join(
        f"2026-11-30 10:{i // 60 % 60:02d}:{i % 60:02d},123 INFO trainer: "
        f"epoch {i // 900} step {i} loss {9 / (i + 1):.5f}\n"
        for i in range(9000)
    )


def _coloured() -> str:
    return "".join(f"\x1b[32mINFO\x1b[0m step \x1b[1;36m{i}\x1b[0m loss {9 / (i + 1):.5f}\n" for i in range(9000))


def _hostile() -> str:
    words = sorted({word for one in signatures() for pattern in one.patterns for word in pattern.words})
    return "".join(" ".join(words[i::7]) + "\n" for i in range(7)) * 20


if __name__ == "__main__":
    sys.exit(main())
