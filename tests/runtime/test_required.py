"""Functions that need an accelerator: refused where there is none, untouched where there is."""

from __future__ import annotations

import asyncio
import inspect

import pytest

torch = pytest.importorskip("torch")

from anydevice import DeviceUnavailable, gpu_required


@gpu_required
def plain(x):
    """Doubles."""
    return 2 * x


@gpu_required("cuda", "mps", "xpu", min_free_memory=1)
def chosen():
    return 1


@gpu_required
async def awaited():
    return 1


@gpu_required
def generated():
    got = yield 1
    try:
        yield got
    except KeyError:
        yield "caught"
    return "end"


@gpu_required
async def streamed():
    got = yield 1
    try:
        yield got
    except KeyError:
        yield "caught"
    raise LookupError("own")


@gpu_required
class Made:
    def __init__(self, x):
        self.x = x


class Holder:
    @gpu_required
    def method(self):
        return self

    @gpu_required
    @staticmethod
    def static():
        return 1

    @gpu_required
    @classmethod
    def of_class(cls):
        return cls


async def _collect(stream):
    return [item async for item in stream]


CALLS = {
    "plain": lambda: plain(1),
    "chosen": chosen,
    "awaited": lambda: asyncio.run(awaited()),
    "generated": lambda: list(generated()),
    "streamed": lambda: asyncio.run(_collect(streamed())),
    "Made": lambda: Made(1),
    "Holder.method": lambda: Holder().method(),
    "Holder.static": Holder.static,
    "Holder.of_class": Holder.of_class,
}


@pytest.mark.worlds("none")
@pytest.mark.parametrize("name", CALLS)
def test_without_an_accelerator_the_function_is_named(name):
    with pytest.raises(DeviceUnavailable, match=rf"{name}\(\) needs .*this PyTorch is not built for it"):
        CALLS[name]()


@pytest.mark.worlds("cuda:2", "mps", "xpu")
def test_with_an_accelerator_all_is_as_without_the_decorator():
    assert plain(2) == 4
    assert plain.__doc__ == "Doubles."
    assert chosen() == 1
    assert inspect.iscoroutinefunction(awaited)
    assert asyncio.run(awaited()) == 1
    items = generated()
    assert next(items) == 1
    assert items.send("sent") == "sent"
    assert items.throw(KeyError) == "caught"
    assert Made(3).x == 3
    assert isinstance(Made(3), Made)
    assert isinstance(Holder().method(), Holder)
    assert Holder.static() == 1
    assert Holder.of_class() is Holder


@pytest.mark.worlds("cuda:2")
def test_asynchronous_generators_are_sent_to_thrown_into_and_raise():
    async def use():
        stream = streamed()
        found = [await anext(stream), await stream.asend("sent"), await stream.athrow(KeyError)]
        with pytest.raises(LookupError, match="own"):
            await anext(stream)
        return found

    assert asyncio.run(use()) == [1, "sent", "caught"]


@pytest.mark.worlds("mps")
def test_the_kinds_that_are_needed_are_named():
    @gpu_required("cuda")
    def kernel():
        return 1

    with pytest.raises(DeviceUnavailable, match=r"kernel\(\) needs cuda"):
        kernel()
