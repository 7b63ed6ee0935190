"""Child processes of a simulated world, however they are started."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import multiprocessing as torch_multiprocessing

from anydevice.sim import simulate
from anydevice.worlds import all_worlds, parse
from anydevice.worlds.passing import read, write

sys.path.append(str(Path(__file__).parent))  # for the children too, which get it from multiprocessing
import workers

METHODS = [method for method in ("spawn", "forkserver") if method in multiprocessing.get_all_start_methods()]
FORKS = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
COUNT = "import torch; print(torch.cuda.device_count(), torch.cuda.is_available())"


def child(code: str = COUNT, **options: object) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, **options
    ).stdout.strip()


def answer(method: str, target: object, *arguments: object) -> object:
    context = torch_multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=target, args=(queue, *arguments))
    process.start()
    try:
        return queue.get(timeout=60)
    finally:
        process.join(60)


@pytest.mark.parametrize("world", [*all_worlds().values(), parse("cuda:3").with_memory(5)], ids=str)
def test_a_world_survives_being_passed_on(world):
    assert read(write(world)) == world


@pytest.mark.slow
def test_a_child_is_in_the_world_and_not_after_it():
    with simulate("cuda:3"):
        assert child() == "3 True"
        with simulate("none"):
            assert child() == "0 False"
    assert "ANYDEVICE_SIM" not in os.environ


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{"PYTHONPATH": "/nowhere"}, {**os.environ, "PYTHONPATH": "src"}])
def test_a_child_with_an_environment_of_its_own_is_too(environment):
    with simulate("cuda:3"):
        assert child(env=environment) == "3 True"
        os.environ["PYTHONPATH"] = "/elsewhere"
        assert child() == "3 True"


@pytest.mark.slow
def test_the_users_own_sitecustomize_runs_and_the_path_is_clean(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.greeting = 'hello'")
    code = "import sys, builtins; print(builtins.greeting, [p for p in sys.path if 'startup' in p], 'torch' in sys.modules)"
    with simulate("cuda"):
        assert child(code, env={**os.environ, "PYTHONPATH": str(tmp_path)}) == "hello [] False"


@pytest.mark.slow
def test_the_memory_of_a_child_is_that_of_the_world():
    with simulate("cuda", memory=2**30):
        assert child("import torch; print(torch.cuda.mem_get_info()[1])") == str(2**30)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_tensors_on_a_device_are_shared(method):
    with simulate("cuda:2"):
        mine = torch.zeros(2, device="cuda:1")
        assert answer(method, workers.placed, mine) == ("cuda:1", 2, "cuda:1")
        assert mine.tolist() == [1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_tensors_come_back_through_a_queue(method):
    with simulate("cuda:2"):
        context = torch_multiprocessing.get_context(method)
        queue, done = context.Queue(), context.Event()
        process = context.Process(target=workers.sent, args=(queue, done))
        process.start()
        got = queue.get(timeout=60)
        done.set()
        process.join(60)
        assert (got.tolist(), str(got.device)) == ([0, 1, 2], "cuda:1")


@pytest.mark.slow
@pytest.mark.skipif("forkserver" not in METHODS, reason="no such server here")
def test_a_fork_server_does_not_outlive_its_world():
    with simulate("cuda:2"):
        assert answer("forkserver", workers.placed, None)[1] == 2
    with simulate("cuda:3"):
        assert answer("forkserver", workers.placed, None)[1] == 3


@FORKS
def test_a_forked_child_may_not_use_what_its_parent_has_used():
    with simulate("cuda:2"):
        assert answer("fork", workers.placed, None) == ("cuda:1", 2, None)
        torch.ones(1, device="cuda")
        assert answer("fork", workers.placed, None) == (
            "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
            "'spawn' start method"
        )
        assert torch.ones(1).cuda().tolist() == [1]


@FORKS
def test_a_forked_child_cannot_compute_with_tensors_of_its_parent():
    with simulate("cuda"):
        held = torch.ones(2, device="cuda")
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        process = context.Process(target=workers.operates, args=(queue, held))
        process.start()
        lost = "CUDA error: initialization error"
        view, added, moved, asked = queue.get(timeout=30)
        assert (view, added, moved) == ("cuda:0", lost, lost)
        assert asked.startswith("Cannot re-initialize CUDA in forked subprocess")  # `to("cuda")` starts the back end
        process.join(30)


@pytest.mark.slow
def test_spawned_ranks_have_their_devices(tmp_path):
    with simulate("cuda:2"):
        torch_multiprocessing.spawn(workers.spawned, args=(str(tmp_path),), nprocs=2)
    assert [(tmp_path / str(rank)).read_text() for rank in (0, 1)] == ["cuda:0", "cuda:1"]


def test_memory_of_a_device_is_shared_as_it_is():
    with simulate("cuda"):
        x = torch.ones(2, device="cuda")
        assert x.is_shared() and x.share_memory_() is x
        y = torch.ones(2)
        assert not y.is_shared() and y.share_memory_().is_shared()
