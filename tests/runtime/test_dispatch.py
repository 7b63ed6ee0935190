"""One function, several implementations: which is called for what."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from anydevice import dispatch, get_device


@dispatch
def named(*values, **more):
    """Says who was called."""
    return "default"


@named.register("cuda", "xpu")
def _(*values, **more):
    return "gpu"


@named.register("mps")
def _(*values, **more):
    return "mps"


@pytest.mark.parametrize(("world", "who"), [("none", "default"), ("cuda:2", "gpu"), ("mps", "mps"), ("xpu", "gpu")])
def test_the_implementation_of_the_arguments_device_is_called(simulate, world, who):
    with simulate(world):
        x = torch.ones(2, device=get_device())
        scalar = torch.tensor(1.0)
        for answer in (
            named(x),
            named(1, x),
            named(x=x),
            named([{"x": (x,)}]),
            named(scalar, x),
            named(x, scalar),
            named(torch.nn.Linear(1, 1).to(get_device())),
            named(get_device()),
        ):
            assert answer == who
        assert named(torch.ones(2)) == named(1) == named(scalar) == named() == "default"


@pytest.mark.worlds("cuda:2", "mps", "xpu")
def test_tensors_on_several_kinds_of_device_are_refused():
    with pytest.raises(RuntimeError, match=r"named\(\) was given tensors on cpu and on \w+; move them"):
        named(torch.ones(2), torch.ones(2, device=get_device()))


@pytest.mark.worlds("cuda:2")
def test_methods_are_dispatched_too():
    class Holder:
        @dispatch
        def method(self, x):
            return (self, "default")

        @method.register("cuda")
        def _(self, x):
            return (self, "cuda")

    holder = Holder()
    assert holder.method(torch.ones(1, device="cuda")) == (holder, "cuda")
    assert holder.method(torch.ones(1)) == (holder, "default")


def test_an_implementation_is_for_a_kind_and_not_for_one_device():
    for kinds in (("cuda:0",), ()):
        with pytest.raises(ValueError, match="without an index"):
            named.register(*kinds)


def test_it_looks_like_the_function_and_tells_its_implementations():
    assert named.__name__ == "named"
    assert named.__doc__ == "Says who was called."
    assert named.dispatch("mps")() == "mps"
    assert named.dispatch("cpu")() == "default"


def test_compiled_code_goes_through_it_in_one_graph():
    @dispatch
    def doubled(x):
        return x * 2

    compiled = torch.compile(lambda x: doubled(x) + 1, backend="eager", fullgraph=True)
    assert compiled(torch.ones(1)).item() == 3.0
