"""The oldest torch that a project supports, from every place where people write it."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from anydevice.project.pins import ANCIENT, oldest_torch

REQUIREMENTS = [
    ("torch==1.13.1+cu117", "1.13.1"),
    ("torch>=1.7,<2", "1.7"),
    ("torch >= 1.7 , < 2  # why", "1.7"),
    ("torch<2,>=1.7", "1.7"),
    ("torch~=1.9", "1.9"),
    ("torch==1.8.*", "1.8"),
    ("torch===2.1.0", "2.1.0"),
    ("torch>2.0", "2.0"),
    ("torch[opt-einsum]>=2.2", "2.2"),
    ("torch>=1.7; python_version > '3.6'", "1.7"),
    ("torch (>=1.5)", "1.5"),
    ("pytorch==1.4", "1.4"),
    ("torch>=2.1\ntorch==1.9 ; sys_platform == 'x'", "1.9"),
    ("# torch==1.0\ntorch>=2.1", "2.1"),
    ("numpy>=1.0  # not torch==0.4", None),
    ("torchvision==0.8", None),
    ("torch-geometric==2.0", None),
    ("torch_scatter==2.0", None),
    ("pytorch-lightning>=1.2", None),
    ("efficientnet-pytorch==0.7.1", None),
    ("facenet_pytorch==0.1", None),
    ("torch", None),
    ("torch\nnumpy==1.0", None),
    ("torch!=1.8", None),
    ("torch<3", None),
    ("torch<2", str(ANCIENT)),
    ("torch<=1.9", str(ANCIENT)),
    ("torch==rubbish", None),
    ("", None),
]
OTHERS = [
    ("requirements-dev.txt", "torch>=1.3", "1.3"),
    ("requirements/base.txt", "torch>=1.3", "1.3"),
    ("setup.py", "setup(install_requires=['numpy', 'torch>=1.4,<2', \"torchvision>=0.5\"])", "1.4"),
    ("setup.py", "setup(install_requires=[\n    # 'torch>=1.0',\n    'torch>=1.6'])", "1.6"),
    ("setup.py", "assert torch.__version__ >= '0.4'", None),
    ("setup.cfg", "[options]\ninstall_requires =\n    torch>=1.10\n", "1.10"),
    ("pyproject.toml", '[project]\ndependencies = ["torch>=2.0", "x"]', "2.0"),
    ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "^1.12"', "1.12"),
    ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "1.12.1"', "1.12.1"),
    ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = {version = ">=1.11,<3", source = "x"}', "1.11"),
    ("environment.yml", "dependencies:\n  - pytorch=1.7.1=py3.8_cuda11\n  - torchvision=0.8", "1.7.1"),
    ("environment.yml", "dependencies:\n  - pytorch::pytorch>=1.12", "1.12"),
    ("environment.yaml", "dependencies:\n  - pip:\n    - torch==1.9.0+cu111", "1.9.0"),
    ("Pipfile", '[packages]\ntorch = "==1.10.2"', "1.10.2"),
    ("Pipfile", '[packages]\n"torch" = {version = "==1.3", index = "x"}', "1.3"),
    ("Pipfile", '[packages]\ntorch = "*"', None),
    ("notes.txt", "torch==0.4", None),
]
CASES = [("requirements.txt", source, floor) for source, floor in REQUIREMENTS] + OTHERS


@pytest.mark.parametrize(("name", "source", "floor"), CASES, ids=[f"{name}: {source}" for name, source, _ in CASES])
def test_the_floor_of_a_pin(name: str, source: str, floor: str | None, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(source + "\n", encoding="utf-8")
    assert oldest_torch(tmp_path) == (None if floor is None else Version(floor))


def test_the_lowest_of_several_files_counts(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==2.1\n")
    (tmp_path / "setup.py").write_text("setup(install_requires=['torch>=1.13'])\n")
    assert oldest_torch(tmp_path) == Version("1.13")


def test_files_that_cannot_be_read_pin_nothing(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").mkdir()
    (tmp_path / "setup.py").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "Pipfile").symlink_to("Pipfile")
    assert oldest_torch(tmp_path) is None
