"""Placement cases: one call each with tensors of several devices. What PyTorch makes of it on CUDA stands beside it.

The simulator's tests run them in the world `cuda:2`, and `tools/calibrate.py` on real devices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from calibration.answering import answer_text

F = torch.nn.functional
NEW_WORDING = hasattr(torch, "AcceleratorError")


def operands(card: str, count: int) -> dict[str, Any]:
    """What a case is called with: `c...` are on the CPU, `x...` on the first device, `y` on the second, if any."""
    cpu = torch.arange(1.0, 17.0).view(4, 4)
    indices = torch.tensor([0, 1, 2, 3])
    given = {
        "card": card,
        "c": cpu,
        "x": cpu.to(card),
        "c0": torch.tensor(2.0),
        "x0": torch.tensor(2.0).to(card),
        "ci": indices,
        "xi": indices.to(card),
        "image": torch.ones(1, 3, 8, 8),
    }
    return {**given, "y": cpu.to(f"{card}:1")} if count > 1 else given


Case = Callable[..., object]

RUNS: dict[str, tuple[str, Case]] = {
    "a CPU scalar joins": ("cuda:0", lambda x, c0, **_: x + c0),
    "a CPU scalar first": ("cuda:0", lambda x, c0, **_: c0 * x),
    "a CPU scalar with the second device": ("cuda:1", lambda y, c0, **_: torch.maximum(y, c0)),
    "scalars of both kinds": ("cuda:0", lambda x0, c0, **_: x0 + c0),
    "two CPU scalars in where": ("cuda:0", lambda x, c0, **_: torch.where(x > 0, c0, c0)),
    "a CPU index": ("cuda:0", lambda x, ci, **_: x[ci]),
    "a CPU mask as index": ("cuda:0", lambda x, c, **_: x[c > 3]),
    "put at a CPU index": ("cuda:0", lambda card, x, ci, **_: x.index_put((ci,), torch.zeros(4, 4, device=card))),
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
        lambda card, c, **_: torch.nn.Linear(4, 4).to(card)(c),
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
        lambda card, c, **_: torch.nn.LayerNorm(4).to(card)(c),
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
        lambda card, image, **_: torch.nn.Conv2d(3, 4, 3).to(card)(image),
    ),
    "convolution, CPU weight": (
        "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
        lambda card, image, **_: torch.nn.Conv2d(3, 4, 3)(image.to(card)),
    ),
    "convolution, CPU bias": (
        "Input type (torch.cuda.HalfTensor) and bias type (torch.HalfTensor) should be the same",
        lambda card, image, **_: F.conv2d(
            image.to(card).half(), torch.ones(4, 3, 3, 3, device=card).half(), torch.ones(4).half()
        ),
    ),
    "lstm, CPU input": (
        "Input and parameter tensors are not at the same device, found input tensor at cpu and parameter tensor at cuda:0",
        lambda card, c, **_: torch.nn.LSTM(4, 4).to(card)(c),
    ),
    "gru, CPU hidden": (
        "Input and hidden tensors are not at the same device, found input tensor at cuda:0 and hidden tensor at cpu",
        lambda card, x, **_: torch.nn.GRU(4, 4).to(card)(x, torch.zeros(1, 4)),
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


def names(count: int) -> list[str]:
    """The cases that a machine with `count` devices can run."""
    return [
        name for name, (_, case) in {**RUNS, **REFUSED}.items() if count > 1 or "y" not in case.__code__.co_varnames
    ]


def answers(name: str, device: str) -> list[str]:
    """The device of the result, or the error."""
    kind = torch.device(device).type
    count = torch.get_device_module(kind).device_count()
    return [answer_text(lambda: {**RUNS, **REFUSED}[name][1](**operands(kind, count)))]
