"""What crosses between host and device is seen, with the line that causes it."""

from __future__ import annotations

import inspect

import pytest

torch = pytest.importorskip("torch")

from anydevice.sim import simulate, traffic
from anydevice.sim.traffic.recorder import BETWEEN_DEVICES, SYNCHRONISATION, TO_DEVICE, TO_HOST


@pytest.fixture
def recording():
    with simulate("cuda:2") as simulation:
        recorder = traffic.Recorder()
        recorder.start(simulation)
        yield recorder
        recorder.stop(simulation)
        assert simulation.observers == []


def here() -> int:
    return inspect.currentframe().f_back.f_lineno


def test_a_copy_to_the_device_is_counted_with_its_line(recording):
    x = torch.ones(256).to("cuda").to("cuda"), here()
    (event,) = recording.events
    assert (event.kind, event.nbytes, event.line.number, event.line.path) == (TO_DEVICE, 1024, x[1], __file__)


@pytest.mark.parametrize(
    ("run", "kind"),
    [
        (lambda x: x.cpu(), TO_HOST),
        (lambda x: x.to("cuda:1"), BETWEEN_DEVICES),
        (lambda x: x[0].item(), SYNCHRONISATION),
        (lambda x: bool((x > 0).all()), SYNCHRONISATION),
        (lambda x: x.tolist(), SYNCHRONISATION),
        (lambda x: x.nonzero(), SYNCHRONISATION),
        (lambda x: x[x > 0], SYNCHRONISATION),
    ],
    ids=["cpu", "peer", "item", "bool", "tolist", "nonzero", "mask"],
)
def test_each_kind_is_told_apart(recording, run, kind):
    x = torch.ones(4, device="cuda")
    run(x)
    assert [event.kind for event in recording.events] == [kind]


def test_work_on_the_device_is_no_traffic(recording):
    x = torch.ones(4, device="cuda")
    (x + x).sum().mul_(2).view(1)
    assert recording.events == []


@pytest.mark.parametrize(
    ("make", "fresh"),
    [
        (lambda: torch.zeros(8).cuda(), True),
        (lambda: torch.tensor([1.0]).to("cuda"), True),
        (lambda: (torch.zeros(8) + 1).cuda(), False),
        (lambda: torch.zeros(8)[:4].cuda(), False),
        (lambda: torch.nn.Linear(2, 2).cuda(), False),
    ],
    ids=["factory", "literal", "computed", "slice", "parameters"],
)
def test_what_was_just_created_on_the_host_is_marked(recording, make, fresh):
    make()
    assert {event.fresh for event in recording.events} == {fresh}


def test_lines_that_repeat_with_the_steps_are_told(recording):
    weight = torch.nn.Parameter(torch.zeros(2, device="cuda"))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(5):
        batch = torch.ones(2).to("cuda")
        batch.to("cpu")
        (weight * batch).sum().backward()
        optimizer.step()
    weight.detach().cpu()
    summary = traffic.summarise(recording, "cuda:2")
    assert summary.steps == 5
    assert sorted((row.kind, row.count, row.per_step) for row in summary.rows) == [
        (TO_DEVICE, 5, 1.0),
        (TO_HOST, 1, None),
        (TO_HOST, 5, 1.0),
    ]


def test_a_faster_bus_is_a_shorter_estimate(recording):
    torch.ones(2**20).cuda()
    slow, fast = (traffic.summarise(recording, "cuda:2", bus).estimate for bus in (1e9, 1e11))
    assert slow == pytest.approx(2**22 / 0.5e9, rel=0.01)
    assert fast < slow / 20
