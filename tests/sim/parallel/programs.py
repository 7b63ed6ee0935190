"""Programs that the tests start with two processes: `programs.py CASE`. Each prints what its test looks for, by rank."""

from __future__ import annotations

import copy
import datetime
import os
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

RANK = int(os.environ["RANK"])
SIZE = 2
CASES: dict[str, Callable[[], None]] = {}


def case(function: Callable[[], None]) -> Callable[[], None]:
    CASES[function.__name__] = function
    return function


def say(name: str, value: object) -> None:
    os.write(1, f"{RANK} {name}: {value}\n".encode())


def trial(name: str, action: Callable[[], object]) -> None:
    try:
        say(name, action())
    except Exception as error:
        say(name, f"{type(error).__name__} {str(error).splitlines()[0]}")


def on(*values: float) -> torch.Tensor:
    return torch.tensor(values, device="cuda", dtype=torch.float32)


def start(backend: str | None = "nccl") -> None:
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=30))


@case
def collectives() -> None:
    torch.cuda.set_device(RANK)
    start()
    say("backend", dist.get_backend())

    def reduced(op: object) -> Callable[[], object]:
        def run() -> object:
            x = on(1, 3) * (RANK + 1)
            dist.all_reduce(x, op=op)
            return x.tolist(), x.device.index == RANK

        return run

    for name in ("SUM", "AVG", "MAX", "MIN", "PRODUCT", "BAND"):
        trial(name, reduced(getattr(dist.ReduceOp, name)))

    def spread(fill: Callable[[list[torch.Tensor]], object]) -> Callable[[], object]:
        def run() -> object:
            out = [on(0), on(0)]
            fill(out)
            return [t.item() for t in out], {t.device.index for t in out} == {RANK}

        return run

    trial("all_gather", spread(lambda out: dist.all_gather(out, on(RANK))))
    trial("all_to_all", spread(lambda out: dist.all_to_all(out, [on(10 * RANK), on(10 * RANK + 1)])))
    trial("reduce_scatter", spread(lambda out: dist.reduce_scatter(out[0], [on(1), on(2)])))
    trial("scatter", spread(lambda out: dist.scatter(out[0], [on(5), on(6)] if RANK == 0 else None, 0)))
    trial("gather", spread(lambda out: dist.gather(on(RANK + 1), out if RANK == 0 else None, 0)))
    trial("broadcast", spread(lambda out: dist.broadcast(out[0].fill_(RANK + 1), 1)))

    def flat() -> object:
        whole, mine = torch.zeros(1, 4, device="cuda"), on(0, 0)
        dist.all_gather_into_tensor(whole, on(RANK, 1).view(1, 2))
        dist.reduce_scatter_tensor(mine, on(1, 2, 3, 4), op=dist.ReduceOp.AVG)
        return whole.tolist(), mine.tolist()

    trial("flat", flat)

    def pair() -> object:
        x = on(0)
        for work in dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, on(RANK), 1 - RANK), dist.P2POp(dist.irecv, x, 1 - RANK)]
        ):
            work.wait()
        return x.item()

    trial("pair", pair)

    def objects() -> object:
        gathered: list[object] = [None, None]
        dist.all_gather_object(gathered, {"rank": RANK})
        sent = [{"x": on(7)}] if RANK == 0 else [None]
        dist.broadcast_object_list(sent, 0)
        return gathered, sent[0]["x"].item()  # type: ignore[index]

    trial("objects", objects)
    trial("barrier", lambda: (dist.barrier(), dist.barrier(device_ids=[RANK])))

    def later() -> object:
        x = on(1)
        dist.all_reduce(x, async_op=True).wait()
        return x.item()

    trial("async", later)

    def of_another_group() -> object:
        x, y = on(1), torch.ones(1)
        dist.all_reduce(x, group=dist.new_group([0, 1]))
        host = dist.new_group([0, 1], backend="gloo")
        dist.all_reduce(y, group=host)
        return x.item(), y.item(), dist.get_backend(host)

    trial("groups", of_another_group)
    trial("on the host", lambda: dist.all_reduce(torch.ones(1)))
    trial("mixed", lambda: dist.all_gather([torch.ones(1), torch.ones(1)], on(1)))
    trial("strided", lambda: dist.all_reduce(torch.ones(4, 2, device="cuda").t()))
    trial("int16", lambda: dist.all_reduce(torch.ones(1, device="cuda", dtype=torch.int16)))
    trial("any source", lambda: dist.recv(on(1)))


@case
def no_set_device() -> None:
    start()
    trial("reduce", lambda: dist.all_reduce(torch.ones(1).cuda()))
    os._exit(0)  # the other process may be waiting


@case
def backends() -> None:
    torch.cuda.set_device(RANK)
    start("cpu:gloo,cuda:nccl")
    x, y = on(1), torch.ones(1)
    dist.all_reduce(x)
    dist.all_reduce(y)
    say("both", (x.item(), y.item(), x.device.type, y.device.type))


@case
def ddp() -> None:
    torch.cuda.set_device(RANK)
    start()
    torch.manual_seed(0)
    alone = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).double()
    batch = torch.randn(6, 4, dtype=torch.float64)
    for options in ({}, {"gradient_as_bucket_view": True, "find_unused_parameters": True}, {"static_graph": True}):
        model = copy.deepcopy(alone).cuda()
        wrapped = DistributedDataParallel(model, device_ids=[RANK], **options)
        reference = copy.deepcopy(alone)
        for net, x in ((wrapped, batch.chunk(2)[RANK].cuda()), (reference, batch)):
            optimizer = torch.optim.SGD(net.parameters(), 0.1)
            for _ in range(3):
                optimizer.zero_grad()
                net(x).pow(2).mean().backward()
                optimizer.step()
        same = all(torch.allclose(p.cpu(), q) for p, q in zip(model.parameters(), reference.parameters(), strict=True))
        say(f"same {sorted(options)}", (same, {str(p.grad.device) for p in model.parameters()} == {f"cuda:{RANK}"}))
    trial("module on the host", lambda: DistributedDataParallel(nn.Linear(2, 2)))
    trial("wrong ids", lambda: DistributedDataParallel(nn.Linear(2, 2), device_ids=[RANK]))


@case
def sync_batch_norm() -> None:
    torch.cuda.set_device(RANK)
    start()
    torch.manual_seed(0)
    alone = nn.Sequential(nn.Conv2d(1, 3, 1), nn.BatchNorm2d(3), nn.Conv2d(3, 1, 1)).double()
    model = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(alone)).cuda()
    wrapped = DistributedDataParallel(model, device_ids=[RANK])
    batch = torch.randn(6, 1, 4, 4, dtype=torch.float64)
    part = slice(0, 2) if RANK == 0 else slice(2, 6)
    wrapped(batch[part].cuda()).pow(2).sum().backward()
    alone(batch).pow(2).sum().backward()
    gradients = zip(model.parameters(), alone.parameters(), strict=True)
    say("gradients", all(torch.allclose(p.grad.cpu() * SIZE, q.grad) for p, q in gradients))
    say("statistics", torch.allclose(model[1].running_var.cpu(), alone[1].running_var))


@case
def sharded() -> None:
    torch.cuda.set_device(RANK)
    start()
    from torch.distributed.fsdp import FullyShardedDataParallel

    torch.manual_seed(0)
    alone = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    x = torch.ones(2, 4)
    losses = []
    sharded = FullyShardedDataParallel(copy.deepcopy(alone).cuda(), device_id=RANK)
    for net, given in ((sharded, x.cuda()), (alone, x)):
        optimizer = torch.optim.SGD(net.parameters(), 0.01)
        for _ in range(2):
            loss = net(given).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.cpu())
    say("same", torch.allclose(*losses))


if __name__ == "__main__":
    CASES[sys.argv[1]]()
    if dist.is_initialized():
        dist.destroy_process_group()
