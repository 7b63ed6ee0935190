"""PyTorch's own databases in the simulated world: a sample of each in every run, the whole where exhaustive tests run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("numpy")

ROOT = Path(__file__).parents[2]
KNOWN: dict[str, dict[str, dict[str, str]]] = json.loads(
    (ROOT / "tests" / "sim" / "database_exceptions.json").read_text("utf-8")
)
KINDS = {"forward", "backward", "mixed", "step", "placement"}

# one or two of each family
SAMPLES = {
    "operators": [
        "add", "where", "index_put", "__getitem__", "nn.functional.embedding", "cat", "prod", "repeat", "stft", "quantile",
        "masked_fill", "linalg.svd", "nn.functional.ctc_loss", "nn.functional.batch_norm", "_foreach_add", "normal", "to",
        "nn.functional.scaled_dot_product_attention", "zeros_like", "arange", "sparse.mm.reduce",
    ],
    "modules": ["nn.Linear", "nn.BatchNorm2d", "nn.LSTM", "nn.LazyConv1d", "nn.CrossEntropyLoss", "nn.TransformerEncoderLayer"],
    "optimizers": ["SGD", "Adam", "LBFGS"],
}  # fmt: skip


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "check_databases.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("database", SAMPLES)
def test_a_sample_is_right(database: str) -> None:
    done = check(database, "--samples", "2", "--only", *SAMPLES[database])
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_listed_operator_that_is_right_is_a_complaint(tmp_path: Path) -> None:
    listed = tmp_path / "exceptions.json"
    listed.write_text(json.dumps({"operators": {"forward": {"add": "no reason"}}}), encoding="utf-8")
    done = check("operators", "--only", "add", "--exceptions", str(listed))
    assert done.returncode == 1
    assert "add: forward: listed as an exception, but right" in done.stdout


def test_an_operator_that_is_wrong_and_not_listed_is_a_complaint(tmp_path: Path) -> None:
    listed = tmp_path / "exceptions.json"
    listed.write_text('{"operators": {}}', encoding="utf-8")
    done = check("operators", "--samples", "2", "--only", "histogram", "--exceptions", str(listed))
    assert done.returncode == 1
    assert "histogram: forward: NotImplementedError" in done.stdout


def test_every_exception_has_a_reason() -> None:
    assert set(KNOWN) == set(SAMPLES)
    for kinds in KNOWN.values():
        assert set(kinds) <= KINDS
        assert all(len(reason) > 8 for entries in kinds.values() for reason in entries.values())


@pytest.mark.exhaustive
@pytest.mark.parametrize("database", SAMPLES)
def test_all_are_right_but_those_listed(database: str) -> None:
    done = check(database, "--jobs", "2")
    assert done.returncode == 0, done.stdout + done.stderr
