"""Every known error is found in logs of every kind, and logs without one explain nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from anydevice.cli.explain import command
from anydevice.doctor.explain.explaining import explain_text
from anydevice.doctor.facts.signatures import Signature, signatures

sys.path.insert(0, str(Path(__file__).parent))
from logs import LOGS

_ORDINARY = [
    "KeyError: 'model_state_dict'",
    "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv'",
    "ValueError: Expected input batch_size (32) to match target batch_size (16).",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 9x3)",
    "ModuleNotFoundError: No module named 'pandas'",
    "ImportError: cannot import name 'Self' from 'typing' (/usr/lib/python3.10/typing.py)",
    "TypeError: forward() missing 1 required positional argument: 'mask'",
    "requests.exceptions.HTTPError: 404 Client Error: Not Found for url: https://example.org/weights.bin",
    "AttributeError: 'NoneType' object has no attribute 'shape'",
    "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    "MemoryError",
    "Successfully installed numpy-2.1.0 torch-2.13.0",
    "using device cuda:0 (NVIDIA A100-SXM4-80GB), CUDA 12.6, driver 560.35",
    "UserWarning: torch.utils.data has a DataLoader with 0 workers",
    "================ 312 passed, 4 skipped in 41.20s ================",
]


@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize("signature", signatures(), ids=lambda signature: signature.id)
def test_the_error_is_explained_first(signature: Signature, kind: str) -> None:
    found = explain_text(LOGS[kind](signature.sample))
    assert found
    assert found[0].id == signature.id


@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize("message", _ORDINARY)
def test_nothing_is_made_up(message: str, kind: str) -> None:
    assert explain_text(LOGS[kind](message)) == []


def test_the_logs_numbers_are_worked_in() -> None:
    text = "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver"
    first = explain_text(text)[0]
    assert any("11.4" in seen for seen in first.seen)


def test_status_says_what_became_of_it(tmp_path: Path) -> None:
    runner = CliRunner()
    log = tmp_path / "train.log"
    log.write_text("AssertionError: Torch not compiled with CUDA enabled\n")
    assert runner.invoke(command, [str(log)]).exit_code == 0
    assert runner.invoke(command, ["KeyError: 'x'"]).exit_code == 1
    assert runner.invoke(command, [str(tmp_path / "none.log")]).exit_code == 2
    log.write_bytes(b"\x7fELF\0\0\0" * 99)
    assert runner.invoke(command, [str(log)]).exit_code == 2


def test_standard_input_is_read() -> None:
    result = CliRunner().invoke(command, ["-", "--json"], input="Torch not compiled with CUDA enabled\n")
    assert json.loads(result.output)["explanations"][0]["line"] == 1
