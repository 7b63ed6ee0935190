"""Tensors of several devices in one operator: what runs, where the result is, and what is said otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

torch = pytest.importorskip("torch")

from anydevice.sim import simulate

F = torch.nn.functional
NEW_WORDING = hasattr(torch, "AcceleratorError")


@pytest.fixture
def tensors() -> Iterator[dict[str, torch.Tensor]]:
    with simulate("cuda:2"):
        cpu = torch.arange(1.0, 17.0).view(4, 4)
        yield {
            "c": cpu,
            "x": cpu.to("cuda"),
            "y": cpu.to("cuda:1"),
            "c0": torch.tensor(2.0),
            "x0": torch.tensor(2.0).to("cuda"),
            "ci": torch.tensor([0, 1, 2, 3]),
            "xi": torch.tensor([0, 1, 2, 3]).to("cuda"),
            "image": torch.ones(1, 3, 8, 8),
        }


Case = Callable[..., object]

RUNS: dict[str, tuple[str, Case]] = {
    "a CPU scalar joins": ("cuda:0", lambda x, c0, **_: x + c0),
    "a CPU scalar first": ("cuda:0", lambda x, c0, **_: c0 * x),
    "a CPU scalar with the second device": ("cuda:1", lambda y, c0, **_: torch.maximum(y, c0)),
    "scalars of both kinds": ("cuda:0", lambda x0, c0, **_: x0 + c0),
    "two CPU scalars in where": ("cuda:0", lambda x, c0, **_: torch.where(x > 0, c0, c0)),
    "a CPU index": ("cuda:0", lambda x, ci, **_: x[ci]),
    "a CPU mask as index": ("cuda:0", lambda x, c, **_: x[c > 3]),
    "put at a CPU index": ("cuda:0", lambda x, ci, **_: x.index_put((ci,), torch.zeros(4, 4, device="cuda"))),
    "put a CPU scalar": ("cuda:0", lambda x, ci, c0, **_: x.index_put((ci,), c0)),
    "copy_ from the CPU": ("cuda:0", lambda x, c, **_: x.copy_(c)),
    "copy_ to the CPU": ("cpu", lambda x, c, **_: c.copy_(x)),
    "assignment of a slice": ("cuda:0", lambda x, c, **_: _assigned(x, c)),
    "fill_ with a CPU value": ("cuda:0", lambda x, c0, **_: x.fill_(c0)),
    "fill_ a CPU tensor with a device's value": ("cpu", lambda c, x0, **_: c.fill_(x0)),
    "masked_fill with a CPU value": ("cuda:0", lambda x, c0, **_: x.masked_fill(x > 3, c0)),
    "slice_scatter from the CPU": ("cuda:0", lambda x, c, **_: torch.slice_scatter(x, c, 0)),
    "foreach over two devices": ("cuda:1", lambda x, y, **_: torch._foreach_add([x, y], [x, y])[1]),
    "foreach copy between devices": ("cuda:0", lambda x, c, **_: _foreach_copied(x, c)),
    "resize as a CPU tensor": ("cuda:0", lambda x, c, **_: x.resize_as_(c)),
    "batch sizes of a packed sequence": (
        "cpu",
        lambda x, **_: torch.nn.utils.rnn.pack_padded_sequence(x[:, :, None], torch.tensor([4, 3, 2, 1])).batch_sizes,
    ),
    "data of a packed sequence": (
        "cuda:0",
        lambda x, **_: torch.nn.utils.rnn.pack_padded_sequence(x[:, :, None], torch.tensor([4, 3, 2, 1])).data,
    ),
    "CPU lengths of ctc_loss": (
        "cuda:0",
        lambda x, xi, **_: F.ctc_loss(x[:, None].log_softmax(-1), xi[None, 1:2], torch.tensor([4]), torch.tensor([1])),
    ),
}

SAME = r"Expected all tensors to be on the same device, but found at least two devices, {0} and {1}!"


def guarded(argument: str, device: str, common: str, method: str) -> str:
    if NEW_WORDING:
        return (
            f"Expected all tensors to be on the same device, but got {argument} is on {device}, different from other "
            f"tensors on {common} (when checking argument in method wrapper_CUDA_{method})"
        )
    return (
        f"Expected all tensors to be on the same device, but found at least two devices, {common} and {device}! "
        f"(when checking argument for argument {argument} in method wrapper_CUDA_{method})"
    )


REFUSED: dict[str, tuple[str, Case]] = {
    "addition": (SAME.format("cuda:0", "cpu"), lambda x, c, **_: x + c),
    "addition, CPU first": (SAME.format("cuda:0", "cpu"), lambda x, c, **_: c + x),
    "two devices": (SAME.format("cuda:0", "cuda:1"), lambda x, y, **_: x + y),
    "a device scalar and a CPU tensor": (SAME.format("cuda:0", "cpu"), lambda c, x0, **_: c + x0),
    "in place into the CPU": (SAME.format("cuda:0", "cpu"), lambda x, c, **_: c.add_(x)),
    "in place into a CPU scalar": (SAME.format("cuda:0", "cpu"), lambda x0, c0, **_: c0.add_(x0)),
    "out on the CPU": (SAME.format("cuda:0", "cpu"), lambda x, c, **_: torch.add(x, x, out=c)),
    "two CPU scalars": ("Trying to pass too many CPU scalars", lambda x, c0, **_: torch.addcmul(x, c0, c0)),
    "mm": (guarded("mat2", "cpu", "cuda:0", "mm"), lambda x, c, **_: x @ c),
    "mm out": (guarded("self", "cuda:0", "cpu", "mm_out_out"), lambda x, c, **_: torch.mm(x, x, out=c)),
    "linear": (
        guarded("mat1", "cpu", "cuda:0", "addmm"),
        lambda c, **_: torch.nn.Linear(4, 4).to("cuda")(c),
    ),
    "cat": (guarded("tensors", "cpu", "cuda:0", "cat"), lambda x, c, **_: torch.cat([x, c])),
    "stack": (guarded("tensors", "cpu", "cuda:0", "cat"), lambda x, c, **_: torch.stack([x, c])),
    "embedding": (guarded("index", "cpu", "cuda:0", "_index_select"), lambda x, ci, **_: F.embedding(ci, x)),
    "embedding by a CPU scalar": (
        guarded("index", "cpu", "cuda:0", "_index_select"),
        lambda x, **_: F.embedding(torch.tensor(1), x),
    ),
    "index_select": (guarded("index", "cpu", "cuda:0", "_index_select"), lambda x, ci, **_: x.index_select(0, ci)),
    "gather": (guarded("index", "cpu", "cuda:0", "gather"), lambda x, ci, **_: x.gather(0, ci[None])),
    "nextafter with a CPU scalar": (
        guarded("other", "cpu", "cuda:0", "nextafter"),
        lambda x, c0, **_: torch.nextafter(x, c0),
    ),
    "layer_norm": (
        guarded("weight", "cuda:0", "cpu", "_native_layer_norm"),
        lambda c, **_: torch.nn.LayerNorm(4).to("cuda")(c),
    ),
    "cross_entropy, target": (
        guarded("target", "cpu", "cuda:0", "nll_loss_forward"),
        lambda x, ci, **_: F.cross_entropy(x, ci),
    ),
    "cross_entropy, weight": (
        guarded("weight", "cpu", "cuda:0", "nll_loss_forward"),
        lambda x, xi, **_: F.cross_entropy(x, xi, weight=torch.ones(4)),
    ),
    "a CPU tensor by a device's index": (
        "indices should be either on cpu or on the same device as the indexed tensor (cpu)",
        lambda c, xi, **_: c[xi],
    ),
    "put CPU values": (SAME.format("cuda:0", "cpu"), lambda x, c, xi, **_: x.index_put((xi,), c)),
    "add up a CPU value": (
        "expected device cuda:0 but got device cpu for value tensor",
        lambda x, c0, xi, **_: x.index_put((xi,), c0, accumulate=True),
    ),
    "masked_fill by a CPU mask": (
        "expected self and mask to be on the same device, but got mask on cpu and self on cuda:0",
        lambda x, c, **_: x.masked_fill(c > 3, 0.0),
    ),
    "masked_fill of a CPU tensor": (
        "masked_fill_: Expected inputs to be on same device",
        lambda c, x0, **_: c.masked_fill(c > 3, x0),
    ),
    "convolution, CPU input": (
        "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or input should be "
        "a MKLDNN tensor and weight is a dense tensor",
        lambda image, **_: torch.nn.Conv2d(3, 4, 3).to("cuda")(image),
    ),
    "convolution, CPU weight": (
        "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
        lambda image, **_: torch.nn.Conv2d(3, 4, 3)(image.to("cuda")),
    ),
    "convolution, CPU bias": (
        "Input type (torch.cuda.HalfTensor) and bias type (torch.HalfTensor) should be the same",
        lambda image, **_: F.conv2d(
            image.to("cuda").half(), torch.ones(4, 3, 3, 3, device="cuda").half(), torch.ones(4).half()
        ),
    ),
    "lstm, CPU input": (
        "Input and parameter tensors are not at the same device, found input tensor at cpu and parameter tensor at cuda:0",
        lambda c, **_: torch.nn.LSTM(4, 4).to("cuda")(c),
    ),
    "gru, CPU hidden": (
        "Input and hidden tensors are not at the same device, found input tensor at cuda:0 and hidden tensor at cpu",
        lambda x, **_: torch.nn.GRU(4, 4).to("cuda")(x, torch.zeros(1, 4)),
    ),
    "attention": (
        "Expected query, key, and value to have the same device type, but got query.device: cuda:0 key.device: cpu",
        lambda x, c, **_: F.scaled_dot_product_attention(x[None], c[None], x[None]),
    ),
    "meshgrid": (
        "meshgrid expects all tensors to have the same device",
        lambda x, c, **_: torch.meshgrid(x[0], c[0], indexing="ij"),
    ),
    "tensor_split": (
        "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on cuda:0",
        lambda x, xi, **_: torch.tensor_split(x, xi),
    ),
    "lengths on the device": (
        "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor",
        lambda x, xi, **_: torch.nn.utils.rnn.pack_padded_sequence(x[:, :, None], 4 - xi),
    ),
    "foreach, one pair mixed": (SAME.format("cuda:0", "cpu"), lambda x, c, **_: torch._foreach_add([x, x], [x, c])),
    "under vmap": (
        guarded("mat2", "cpu", "cuda:0", "mm"),
        lambda x, c, **_: torch.func.vmap(lambda row: row @ c)(x),
    ),
}


def _assigned(x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    x[1:3] = c[1:3]
    return x


def _foreach_copied(x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    torch._foreach_copy_([x], [c])
    return x


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
    REFUSED[name][1](**{key: value.to("cuda") for key, value in tensors.items()})


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
