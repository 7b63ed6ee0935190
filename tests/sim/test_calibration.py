"""The simulator against what real devices answered, and the tool that asks them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numpy")

ROOT = Path(__file__).parents[2]
RECORDINGS = sorted((ROOT / "tests" / "sim" / "calibration").glob("*.json"))
SAMPLE = ["a CPU index", "two CPU scalars", "mm", "add"]


def calibrate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "calibrate.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_recording_is_compared_answer_by_answer(tmp_path: Path) -> None:
    kept = tmp_path / "cuda.json"
    done = calibrate("record", "cuda", "--world", "cuda", "--out", str(kept), "--only", *SAMPLE)
    assert done.returncode == 0, done.stderr
    assert "5 cases" in done.stdout  # `mm` is a case of both parts
    done = calibrate("compare", str(kept))
    assert (done.returncode, done.stdout.split("\n")[:2]) == (0, ["placement: 3 of 3 alike", "operators: 2 of 2 alike"])

    recorded = json.loads(kept.read_text("utf-8"))
    recorded["answers"]["placement"]["a CPU index"] = ["RuntimeError: as no device says it"]
    recorded["answers"]["operators"]["add"][0] = "cpu"
    kept.write_text(json.dumps(recorded), encoding="utf-8")
    done = calibrate("compare", str(kept))
    assert done.returncode == 1
    assert "placement: a CPU index: simulated 'cuda:0', real 'RuntimeError: as no device says it'" in done.stdout
    assert "operators: add: simulated 'cuda:0', real 'cpu'" in done.stdout


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device to ask")
def test_without_a_device_nothing_is_recorded(tmp_path: Path) -> None:
    done = calibrate("record", "cuda", "--out", str(tmp_path / "cuda.json"))
    assert done.returncode == 1
    assert "PyTorch finds no cuda device here" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_a_recording_is_of_a_real_device(recording: Path) -> None:
    assert json.loads(recording.read_text("utf-8"))["world"] == ""


@pytest.mark.exhaustive
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_the_simulator_answers_as_the_device_did(recording: Path) -> None:
    done = calibrate("compare", str(recording), "--jobs", "2")
    assert done.returncode == 0, done.stdout
