"""DataLoader workers and pinned batches."""

from __future__ import annotations

import multiprocessing
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, Dataset

from anydevice.sim import simulate

FORKS = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")


class Rows(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return {"x": torch.full((2,), float(index)), "y": (index, torch.tensor(index))}


class OnDevice(Rows):
    def __getitem__(self, index):
        return torch.full((2,), float(index)).cuda()


class Held(Rows):
    def __init__(self, table):
        self.table = table

    def __getitem__(self, index):
        return self.table[index].cpu()


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=FORKS)])
def test_batches_are_pinned(workers):
    with simulate("cuda"):
        torch.ones(1, device="cuda")
        batch = next(iter(DataLoader(Rows(), 2, num_workers=workers, pin_memory=True)))
        assert (batch["x"].is_pinned(), batch["y"][1].is_pinned(), batch["x"].device.type) == (True, True, "cpu")
        assert batch["x"].tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize(
    ("world", "says"),
    [("none", "no accelerator is found"), ("mps", "not supported on MPS")],
)
def test_a_machine_that_cannot_pin_warns(world, says):
    with simulate(world), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        batch = next(iter(DataLoader(Rows(), 2, pin_memory=True)))
    assert says in str(caught[-1].message)
    assert not batch["x"].is_pinned()


def test_a_batch_on_the_device_cannot_be_pinned():
    with simulate("cuda"), pytest.raises(RuntimeError, match="cannot pin 'torch.cuda.FloatTensor'"):
        next(iter(DataLoader(OnDevice(), 2, pin_memory=True)))


@FORKS
def test_a_forked_worker_cannot_use_the_device_that_its_parent_uses():
    with simulate("cuda"):
        table = torch.ones(4, 2, device="cuda")
        with pytest.raises(RuntimeError, match="Cannot re-initialize CUDA in forked subprocess"):
            next(iter(DataLoader(OnDevice(), 2, num_workers=1, multiprocessing_context="fork")))
        with pytest.raises(RuntimeError, match="CUDA error: initialization error"):
            next(iter(DataLoader(Held(table), 2, num_workers=1, multiprocessing_context="fork")))


@pytest.mark.slow
def test_a_spawned_worker_can():
    with simulate("cuda"):
        torch.ones(1, device="cuda")
        batch = next(iter(DataLoader(OnDevice(), 2, num_workers=1, multiprocessing_context="spawn")))
        assert (str(batch.device), batch.tolist()) == ("cuda:0", [[0, 0], [1, 1]])
