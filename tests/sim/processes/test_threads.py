"""Threads in a simulated world."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch")

from anydevice.sim import simulate


def placed() -> tuple[str, int]:
    made = torch.ones(2, device="cuda") + 1
    return str(made.device), torch.cuda.current_device()


def in_thread(action):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(action).result()


class Mine(threading.Thread):
    answer = None

    def run(self):
        self.answer = placed()


def test_operators_of_a_thread_are_in_the_world():
    with simulate("cuda:2"):
        thread = Mine()
        thread.start()
        thread.join()
        assert thread.answer == in_thread(placed) == ("cuda:0", 0)


def test_the_current_device_is_that_of_the_thread():
    with simulate("cuda:2"):
        torch.cuda.set_device(1)
        assert (in_thread(placed), placed()) == (("cuda:0", 0), ("cuda:1", 1))


def test_a_thread_raises_what_the_main_one_would():
    with simulate("cuda"), pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cpu!"):
        in_thread(lambda: torch.ones(2, device="cuda") + torch.ones(2))


def test_a_thread_follows_the_world_that_is_active():
    entered, go_on = threading.Event(), threading.Event()
    found = []

    def work():
        for _ in range(3):
            entered.wait(10)
            entered.clear()
            found.append([str((torch.ones(1) + 1).device), torch.cuda.device_count()])
            go_on.set()

    def step():
        entered.set()
        assert go_on.wait(10)
        go_on.clear()

    before = torch.cuda.device_count()
    with simulate("cuda"):
        thread = threading.Thread(target=work)
        thread.start()
        step()
        with simulate("cuda:3"):
            step()
    step()
    thread.join()
    assert found == [["cpu", 1], ["cpu", 3], ["cpu", before]]


def test_gradients_of_a_thread_are_on_the_device():
    def train():
        weight = torch.ones(2, device="cuda", requires_grad=True)
        (weight * 2).sum().backward()
        return str(weight.grad.device)

    with simulate("cuda"):
        assert in_thread(train) == "cuda:0"
