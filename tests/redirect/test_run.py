"""Programs written for CUDA, run unedited on the CPU through the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")


def run(folder: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    program = folder / "program.py"
    program.write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "anydevice", "run", "--device", "cpu", *options, str(program)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False, timeout=120)


API = """
import copy, io, pickle
import torch
from torch import nn
from torch.cuda.amp import GradScaler, autocast

d = torch.device("cuda:1")
assert isinstance(d, torch.device) and d.type == "cpu" and torch.device(type="cuda", index=0).type == "cpu"
assert pickle.loads(pickle.dumps(d)) == d and copy.deepcopy(d) == d
assert torch.cuda.is_available() and torch.cuda.device_count() == 1 and torch.cuda.current_device() == 0
torch.cuda.set_device(0)
torch.cuda.manual_seed_all(1)
for made in (
    torch.zeros(2, device="cuda"), torch.tensor([1.0], device="cuda:0"), torch.rand(2, device=0), torch.arange(3).cuda(0),
    torch.zeros(2).to("cuda", torch.float64), torch.zeros(2).new_ones(3, device="cuda"), torch.as_tensor([1], device="cuda"),
    torch.rand_like(torch.zeros(1), device="cuda"), torch.cuda.FloatTensor(2, 3), torch.zeros(2).type(torch.cuda.LongTensor),
    torch.zeros(2).type("torch.cuda.HalfTensor"), torch.zeros(2, pin_memory=True).cuda(non_blocking=True),
    torch.full((2,), 1.0, device="cuda"), torch.fft.fftfreq(4, device="cuda"), torch.zeros(2).pin_memory().cuda(),
):
    assert made.is_cuda and made.device.type == "cpu", made
assert isinstance(torch.zeros(2).cuda(), torch.cuda.FloatTensor)
assert not isinstance(torch.zeros(2).cuda(), torch.cuda.LongTensor)
assert torch.zeros(2).cuda().type() == "torch.cuda.FloatTensor"
torch.randn(2, device="cuda", generator=torch.Generator("cuda").manual_seed(3))
with torch.device("cuda"):
    torch.zeros(2)
model = nn.DataParallel(nn.Linear(2, 2).to("cuda")).cuda()
assert isinstance(model, nn.DataParallel) and isinstance(model.module, nn.Linear)
stream = torch.cuda.Stream()
start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
scaler = GradScaler()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
with torch.cuda.stream(stream), autocast(), torch.cuda.device(0):
    out = model(torch.ones(3, 2).cuda())
assert out.dtype in (torch.bfloat16, torch.float16), out.dtype
scaler.scale(out.float().sum()).backward()
scaler.step(optimizer)
scaler.update()
stop.record()
torch.cuda.synchronize()
assert start.elapsed_time(stop) > 0
file = io.BytesIO()
torch.save({"w": torch.ones(2), "d": d}, file)
for where in ("cuda", {"cuda:0": "cuda:1"}, torch.device("cuda"), None, lambda storage, location: storage.cuda()):
    file.seek(0)
    assert torch.load(file, map_location=where, weights_only=False)["w"].sum() == 2
print("fine")
"""


def test_what_names_cuda_works_on_the_cpu(tmp_path: Path) -> None:
    done = run(tmp_path, API)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr[-1500:]


def test_the_log_names_lines_and_counts(tmp_path: Path) -> None:
    source = "import torch\nfor _ in range(3):\n    torch.zeros(1).cuda()\nprint(torch.cuda.is_available())\n"
    done = run(tmp_path, source, "--log", "log.json")
    assert "program.py:3: changed Tensor.cuda -> cpu (3 times)" in done.stderr
    assert "program.py:4: faked torch.cuda.is_available -> True" in done.stderr
    entries = json.loads((tmp_path / "log.json").read_text(encoding="utf-8"))["entries"]
    assert [(entry["line"], entry["times"]) for entry in entries] == [(3, 3), (4, 1)]


def test_status_and_traceback_are_those_of_the_program(tmp_path: Path) -> None:
    assert run(tmp_path, "raise SystemExit(7)").returncode == 7
    done = run(tmp_path, "import torch\ntorch.zeros(2).cuda() + torch.zeros(3).cuda()\n")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):")
    assert str(Path("anydevice", "redirect")) not in done.stderr


def test_a_listed_library_is_told_that_there_is_no_cuda(tmp_path: Path) -> None:
    (tmp_path / "xformers.py").write_text("import torch\nhere = torch.cuda.is_available()\n", encoding="utf-8")
    done = run(tmp_path, "import xformers, torch\nprint(xformers.here, torch.cuda.is_available())\n")
    assert done.stdout == "False True\n"
    assert "asked by xformers" in done.stderr


@pytest.mark.parametrize(
    "call",
    [
        "from torch.utils.cpp_extension import load_inline as build\nbuild('k', '', cuda_sources='__global__')",
        "from torch.utils.cpp_extension import load\nload('k', ['a.cpp', 'k.cu'])",
        "import torch\ntorch.cuda.CUDAGraph()",
    ],
    ids=["load_inline", "load", "graph"],
)
def test_what_has_no_counterpart_says_so(tmp_path: Path, call: str) -> None:
    done = run(tmp_path, call)
    assert done.returncode == 1
    assert "has no counterpart outside CUDA; " in done.stderr
    assert "program.py" in done.stderr


CHILDREN = """
import os, pathlib, subprocess, sys
import anydevice
import torch, torch.multiprocessing as mp
from torch.utils.data import DataLoader

ROOT = str(pathlib.Path(anydevice.__file__).parents[1])  # and no start-up folder

def work(rank):
    assert torch.zeros(1).cuda().is_cuda

if __name__ == "__main__":
    mp.spawn(work, nprocs=1)
    loader = DataLoader([torch.ones(1)] * 2, num_workers=1, multiprocessing_context="spawn", pin_memory=True)
    assert sum(batch.cuda().sum() for batch in loader) == 2
    code = "import torch; torch.zeros(1, device='cuda')"
    subprocess.run([sys.executable, "-c", code], check=True)
    subprocess.run([sys.executable, "-c", code], check=True, env={"PATH": os.environ["PATH"], "PYTHONPATH": ROOT})
    print("fine")
"""


@pytest.mark.slow
def test_children_are_redirected(tmp_path: Path) -> None:
    done = run(tmp_path, CHILDREN)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr[-1500:]


def test_nccl_groups_run_over_gloo(tmp_path: Path) -> None:
    source = (
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('nccl', init_method='file://' + __file__ + '.store', rank=0, world_size=1)\n"
        "net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda(), device_ids=[0])\n"
        "net(torch.ones(1, 2).cuda()).sum().backward()\n"
        "print(dist.get_backend())\n"
        "dist.destroy_process_group()\n"
    )
    done = run(tmp_path, source)
    assert (done.returncode, done.stdout) == (0, "gloo\n"), done.stderr[-1500:]
