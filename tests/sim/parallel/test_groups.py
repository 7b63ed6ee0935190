"""Process groups: NCCL's behaviour, with two real processes and Gloo below."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from anydevice.sim import simulate

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this build has no Gloo", allow_module_level=True)

PROGRAMS = Path(__file__).with_name("programs.py")


def both(case: str, world: str = "cuda:2") -> dict[str, list[str]]:
    """What the two processes say: name -> [of rank 0, of rank 1]."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-W", "ignore", "-m", "anydevice", "sim", "--as", world, str(PROGRAMS), case]
    processes = [
        subprocess.Popen(
            command,
            env={
                **os.environ,
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "WORLD_SIZE": "2",
                "RANK": str(rank),
                "OMP_NUM_THREADS": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    said: dict[str, list[str]] = {}
    for process in processes:
        out, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
        for line in out.splitlines():
            name, _, value = line.partition(" ")[2].partition(": ")
            said.setdefault(name, []).append(value)
    return said


@pytest.fixture(scope="module")
def collectives():
    return both("collectives")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rank0", "rank1"),
    [
        ("backend", "nccl", "nccl"),
        ("SUM", "([3.0, 9.0], True)", "([3.0, 9.0], True)"),
        ("AVG", "([1.5, 4.5], True)", "([1.5, 4.5], True)"),
        ("MAX", "([2.0, 6.0], True)", "([2.0, 6.0], True)"),
        ("MIN", "([1.0, 3.0], True)", "([1.0, 3.0], True)"),
        ("PRODUCT", "([2.0, 18.0], True)", "([2.0, 18.0], True)"),
        ("BAND", "ValueError Cannot use ReduceOp.BAND with NCCL", "ValueError Cannot use ReduceOp.BAND with NCCL"),
        ("all_gather", "([0.0, 1.0], True)", "([0.0, 1.0], True)"),
        ("all_to_all", "([0.0, 10.0], True)", "([1.0, 11.0], True)"),
        ("reduce_scatter", "([2.0, 0.0], True)", "([4.0, 0.0], True)"),
        ("scatter", "([5.0, 0.0], True)", "([6.0, 0.0], True)"),
        ("gather", "([1.0, 2.0], True)", "([0.0, 0.0], True)"),
        ("broadcast", "([2.0, 0.0], True)", "([2.0, 0.0], True)"),
        ("flat", "([[0.0, 1.0, 1.0, 1.0]], [1.0, 2.0])", "([[0.0, 1.0, 1.0, 1.0]], [3.0, 4.0])"),
        ("pair", "1.0", "0.0"),
        ("objects", "([{'rank': 0}, {'rank': 1}], 7.0)", "([{'rank': 0}, {'rank': 1}], 7.0)"),
        ("barrier", "(None, None)", "(None, None)"),
        ("async", "2.0", "2.0"),
        ("groups", "(2.0, 2.0, 'gloo')", "(2.0, 2.0, 'gloo')"),
        ("on the host", *["RuntimeError No backend type associated with device type cpu"] * 2),
        ("mixed", *["ValueError Tensors must be CUDA and dense"] * 2),
        ("strided", *["ValueError Tensors must be contiguous"] * 2),
        ("int16", *["TypeError Input tensor data type is not supported for NCCL process group: Short"] * 2),
        ("any source", *["RuntimeError Backend nccl does not support recvAnysource"] * 2),
    ],
)
def test_collectives_are_those_of_nccl(collectives, name, rank0, rank1):
    assert collectives[name] == [rank0, rank1]


@pytest.mark.slow
def test_two_processes_on_one_device_are_refused():
    assert {text.split(" ")[0] for text in both("no_set_device")["reduce"]} == {"DistBackendError"}


@pytest.mark.slow
def test_each_kind_of_tensor_goes_to_its_library():
    assert both("backends")["both"] == ["(2.0, 2.0, 'cuda', 'cpu')"] * 2


@pytest.mark.slow
def test_ddp_trains_as_one_process_would():
    said = both("ddp")
    assert said.pop("module on the host") == ["RuntimeError No backend type associated with device type cpu"] * 2
    assert all("only work with single-device/multiple-device GPU modules" in text for text in said.pop("wrong ids"))
    assert list(said.values()) == [["(True, True)"] * 2] * 3


@pytest.mark.slow
@pytest.mark.parametrize("case", ["sync_batch_norm", "sharded"])
def test_modules_that_work_together_work_as_one(case):
    assert set(map(tuple, both(case).values())) == {("True", "True")}


@pytest.mark.parametrize(
    ("world", "nccl", "xccl"),
    [("none", False, False), ("mps", False, False), ("cuda", True, False), ("rocm", True, False), ("xpu", False, True)],
)
def test_a_build_has_the_libraries_of_its_machine(world, nccl, xccl):
    with simulate(world):
        assert torch.distributed.is_nccl_available() == nccl
        if hasattr(torch.distributed, "is_xccl_available"):
            assert torch.distributed.is_xccl_available() == xccl


@pytest.mark.parametrize("world", ["none", "mps"])
def test_nccl_is_missing_where_there_is_no_cuda(world, tmp_path):
    with simulate(world), pytest.raises(RuntimeError, match="Distributed package doesn't have NCCL built in"):
        torch.distributed.init_process_group("nccl", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)


@pytest.mark.parametrize(("world", "library"), [("cuda", "nccl"), ("rocm", "nccl"), ("xpu", "xccl"), ("cuda", None)])
def test_a_group_of_one_reduces_on_its_device(world, library, tmp_path):
    with simulate(world) as simulation:
        torch.distributed.init_process_group(library, init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
        try:
            x = torch.ones(2, device=simulation.devices[0])
            torch.distributed.all_reduce(x)
            torch.distributed.barrier()
            assert (x.tolist(), x.device) == ([1, 1], simulation.devices[0])
            with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
                torch.distributed.all_reduce(torch.ones(1))
        finally:
            torch.distributed.destroy_process_group()
