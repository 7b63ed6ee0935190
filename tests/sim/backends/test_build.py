"""What the build says that it was made for, in each world."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from anydevice.sim import simulate


@pytest.mark.parametrize(
    ("world", "kind"), [("cuda:2", "cuda"), ("rocm", "cuda"), ("mps", "mps"), ("xpu", "xpu"), ("none", None)]
)
def test_a_build_is_for_the_accelerator_of_its_world(world: str, kind: str | None) -> None:
    before = torch._C._has_cuda
    with simulate(world):
        built = {
            "cuda": torch.backends.cuda.is_built(),
            "mps": torch.backends.mps.is_built(),
            "xpu": torch.xpu._is_compiled(),
        }
        assert [name for name, answer in built.items() if answer] == ([] if kind is None else [kind])
        assert torch.cuda._is_compiled() is (kind == "cuda")
    assert torch._C._has_cuda == before
