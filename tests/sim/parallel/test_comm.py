"""`torch.cuda.comm`, `torch.cuda.nccl` and `nn.DataParallel` over simulated devices."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.cuda import comm
from torch.nn.parallel import data_parallel, gather, replicate, scatter

from anydevice.sim import simulate


@pytest.fixture(autouse=True)
def two_devices():
    with simulate("cuda:2"):
        yield


def on(index, *values):
    return torch.tensor(values, device=f"cuda:{index}")


def devices(tensors):
    return [str(tensor.device) for tensor in tensors]


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([2.0]))
        self.table = torch.ones(1)

    def forward(self, x):
        return x * self.weight + self.table.to("cuda:0")


def test_broadcast_keeps_the_tensor_where_it_is():
    x = on(1, 1.0, 2.0)
    copies = comm.broadcast(x, [0, 1])
    assert devices(copies) == ["cuda:0", "cuda:1"]
    assert copies[1] is x


def test_coalesced_broadcast_keeps_order_and_kinds():
    tensors = [on(0, 1.0), on(0, 1, 2), on(0, 3.0, 4.0)]
    first, second = comm.broadcast_coalesced(tensors, [0, 1])
    assert first == tensors
    assert [t.tolist() for t in second] == [[1.0], [1, 2], [3.0, 4.0]]
    assert devices(second) == ["cuda:1"] * 3


def test_copies_of_one_buffer_have_version_counters_of_their_own():
    _, (a, b) = comm.broadcast_coalesced([on(0, 1.0), on(0, 2.0)], [0, 1])
    a.add_(1)
    assert b._version == 0


def test_scatter_and_gather_are_inverse():
    x = torch.arange(7.0)
    parts = comm.scatter(x, [0, 1], [3, 4])
    assert devices(parts) == ["cuda:0", "cuda:1"]
    assert comm.gather(parts, 0, "cpu").equal(x)
    assert comm.gather(parts, 0, 1).device == torch.device("cuda", 1)


def test_reduce_add_sums_on_one_device():
    assert comm.reduce_add([on(0, 1.0), on(1, 2.0)], 1).tolist() == [3.0]
    (total,) = comm.reduce_add_coalesced([[on(0, 1.0)], [on(1, 2.0)]], 0)
    assert (total.tolist(), str(total.device)) == ([3.0], "cuda:0")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda comm: comm.broadcast_coalesced([on(1, 1.0)], [0, 1]), "All tensors must be on devices[0]: 0"),
        (lambda comm: comm.broadcast(on(0, 1.0), out=[torch.ones(1)]), "at index 0 has device 'cpu'"),
        (lambda comm: comm.broadcast(on(0, 1.0), [0, 7]), "invalid device ordinal"),
        (lambda comm: comm.scatter(torch.ones(2), []), "Expected at least one device to scatter to"),
        (lambda comm: comm.scatter(torch.ones(4), [0], [1, 3]), "len(devices) = 1 and len(chunk_sizes) = 2"),
        (lambda comm: comm.scatter(torch.ones(4), out=[on(0, 1.0)]), "Expected 4, but got total size 1"),
        (lambda comm: comm.gather([torch.ones(1)]), "Expected all input tensors to be CUDA tensors"),
        (lambda comm: comm.gather([torch.ones(1, 2).cuda(), torch.ones(1, 3).cuda()]), "has invalid shape"),
        (lambda comm: comm.reduce_add([on(0, 1.0), on(1, 1.0)], 5), "destination to be on the same GPU"),
    ],
)
def test_errors_are_those_of_cuda(call, says):
    with pytest.raises(RuntimeError) as caught:
        call(torch.cuda.comm)
    assert says in str(caught.value)


def test_nccl_between_devices_of_one_process():
    tensors = [on(0, 1.0, 2.0), on(1, 3.0, 4.0)]
    assert torch.cuda.nccl.is_available(tensors)
    halves = [torch.zeros(1, device=f"cuda:{index}") for index in (0, 1)]
    torch.cuda.nccl.reduce_scatter(tensors, halves)
    assert [half.tolist() for half in halves] == [[4.0], [6.0]]
    torch.cuda.nccl.all_reduce(tensors)
    assert [tensor.tolist() for tensor in tensors] == [[4.0, 6.0]] * 2
    with pytest.raises(RuntimeError, match="inputs must be on unique devices"):
        torch.cuda.nccl.all_reduce([tensors[0], tensors[0]])


def test_data_parallel_has_the_gradients_of_the_module_itself():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8).eval(), nn.ReLU(), nn.Linear(8, 2)).cuda()
    x = torch.randn(5, 4, device="cuda", requires_grad=True)
    found = []
    for run in (model, nn.DataParallel(model, output_device=1)):
        model.zero_grad()
        x.grad = None
        run(x).pow(2).sum().backward()
        found.append([x.grad.cpu(), *(p.grad.cpu() for p in model.parameters())])
    assert all(torch.allclose(one, two, atol=1e-6) for one, two in zip(*found, strict=True))
    assert nn.DataParallel(model, output_device=1)(x).device == torch.device("cuda", 1)
    assert {str(p.grad.device) for p in model.parameters()} == {"cuda:0"}


@pytest.mark.parametrize("place", ["cpu", "cuda:1"])
def test_a_module_on_another_device_is_refused(place):
    model = nn.DataParallel(nn.Linear(2, 2).to(place))
    with pytest.raises(RuntimeError) as caught:
        model(torch.ones(2, 2))
    assert str(caught.value) == (
        "module must have its parameters and buffers on device cuda:0 (device_ids[0]) "
        f"but found one of them on device: {place}"
    )


def test_a_tensor_tied_to_one_device_fails_in_the_other_replica():
    with pytest.raises(RuntimeError) as caught:
        nn.DataParallel(Scaled().cuda())(torch.ones(4, 1))
    text = str(caught.value)
    assert "Caught RuntimeError in replica 1 on device 1" in text
    assert "found at least two devices, cuda:1 and cuda:0!" in text


def test_the_functions_behind_it_work_on_their_own():
    model = nn.Linear(1, 1).cuda()
    assert devices(replica.weight for replica in replicate(model, [0, 1])) == ["cuda:0", "cuda:1"]
    assert devices(scatter(torch.ones(4, 1), [0, 1])) == ["cuda:0", "cuda:1"]
    assert str(gather([on(0, 1.0), on(1, 2.0)], 0).device) == "cuda:0"
    assert data_parallel(model, torch.ones(4, 1).cuda(), [0, 1]).shape == (4, 1)


def test_a_number_means_the_device_of_this_machine():
    assert torch.device(1) == torch.device("cuda", 1)
    assert isinstance(torch.device("cuda"), torch.device)
    assert not isinstance("cuda", torch.device)
    with simulate("xpu:2"):
        assert torch.device(1) == torch.device("xpu", 1)
    with simulate("none"):
        assert torch.device("cpu") == torch.device("cpu")
