"""Tensors of several devices in one operator: what runs, where the result is, and what is said otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from anydevice.sim import simulate
from calibration.placement import REFUSED, RUNS, operands


@pytest.fixture
def tensors() -> Iterator[dict[str, torch.Tensor]]:
    with simulate("cuda:2"):
        yield operands("cuda", 2)


@pytest.mark.parametrize("name", RUNS)
def test_mix_that_pytorch_allows_runs(name: str, tensors: dict[str, torch.Tensor]) -> None:
    device, case = RUNS[name]
    assert str(case(**tensors).device) == device  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", REFUSED)
def test_mix_that_pytorch_refuses_is_refused_in_its_words(name: str, tensors: dict[str, torch.Tensor]) -> None:
    text, case = REFUSED[name]
    with pytest.raises(RuntimeError) as failure:
        case(**tensors)
    assert str(failure.value).startswith(text)


# they make the stray tensor themselves, or want one on the CPU
STRAY_WITHIN = {
    "embedding by a CPU scalar", "cross_entropy, weight", "convolution, CPU weight", "convolution, CPU bias",
    "gru, CPU hidden", "tensor_split", "lengths on the device",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(REFUSED.keys() - STRAY_WITHIN))
def test_refused_mix_runs_once_all_is_on_one_device(name: str, tensors: dict[str, torch.Tensor]) -> None:
    REFUSED[name][1](**{key: value if key == "card" else value.to("cuda") for key, value in tensors.items()})


def test_inference_mode_refuses_alike(tensors: dict[str, torch.Tensor]) -> None:
    with torch.inference_mode(), pytest.raises(RuntimeError, match="mat1 is on cpu|argument mat1"):
        torch.nn.Linear(4, 4).to("cuda")(tensors["c"])


@pytest.mark.skipif(not hasattr(RuntimeError, "add_note"), reason="notes came with Python 3.11")
def test_notes_name_the_line_of_each_tensor(tensors: dict[str, torch.Tensor]) -> None:
    made = torch.ones(4, 4)
    with pytest.raises(RuntimeError) as failure:
        tensors["x"] @ made
    assert any(
        note.startswith("'mat2' is on cpu since") and note.endswith("made = torch.ones(4, 4)")
        for note in failure.value.__notes__
    )


def test_mps_says_what_mps_says() -> None:
    with simulate("mps"):
        layer, data = torch.nn.Linear(4, 4), torch.ones(2, 4)
        with pytest.raises(RuntimeError, match="Tensor for argument weight is on cpu but expected on mps"):
            torch.nn.Linear(4, 4, bias=False)(data.to("mps"))
        with pytest.raises(RuntimeError, match="Tensor for argument input is on cpu but expected on mps"):
            layer.to("mps")(data)
        with pytest.raises(RuntimeError, match="found at least two devices, mps:0 and cpu!"):
            data + data.to("mps")
