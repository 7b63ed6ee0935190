"""PyTorch's own operator database in the simulated world: a sample of it in every run, the whole where exhaustive tests run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("numpy")

ROOT = Path(__file__).parents[3]
KNOWN: dict[str, dict[str, str]] = json.loads((ROOT / "tests" / "sim" / "opinfo_exceptions.json").read_text("utf-8"))

# one or two of each family
SAMPLE = [
    "add", "where", "index_put", "__getitem__", "nn.functional.embedding", "cat", "prod", "repeat", "stft", "quantile",
    "masked_fill", "linalg.svd", "nn.functional.ctc_loss", "nn.functional.batch_norm", "_foreach_add", "normal", "to",
    "nn.functional.scaled_dot_product_attention", "zeros_like", "arange", "sparse.mm.reduce",
]  # fmt: skip


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "check_operators.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_sample_of_operators_is_right() -> None:
    done = check("--samples", "2", "--only", *SAMPLE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_listed_operator_that_is_right_is_a_complaint(tmp_path: Path) -> None:
    listed = tmp_path / "exceptions.json"
    listed.write_text(json.dumps({"forward": {"add": "no reason"}}), encoding="utf-8")
    done = check("--samples", "1", "--only", "add", "--exceptions", str(listed))
    assert done.returncode == 1
    assert "add: forward: listed as an exception, but right" in done.stdout


def test_an_operator_that_is_wrong_and_not_listed_is_a_complaint(tmp_path: Path) -> None:
    listed = tmp_path / "exceptions.json"
    listed.write_text("{}", encoding="utf-8")
    done = check("--samples", "2", "--only", "histogram", "--exceptions", str(listed))
    assert done.returncode == 1
    assert "histogram: forward: NotImplementedError" in done.stdout


def test_every_exception_has_a_reason() -> None:
    for kind, entries in KNOWN.items():
        assert kind in ("forward", "backward", "mixed")
        assert all(len(reason) > 20 for reason in entries.values())


@pytest.mark.exhaustive
def test_all_operators_are_right_but_those_listed() -> None:
    done = check("--jobs", "2")
    assert done.returncode == 0, done.stdout + done.stderr
