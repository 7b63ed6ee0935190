"""Logs as programs write them, of about 200 lines, into which a message can be put. Without it they explain nothing."""

from __future__ import annotations

import json
from collections.abc import Callable

Log = Callable[[str], str]


def training(message: str) -> str:
    """A traceback after progress bars."""
    head = [
        f"epoch {i // 20} step {i} loss {3.2 / (i + 1):.4f} lr 3.0e-04 device cuda:0 images/s {311 + i}"
        for i in range(170)
    ]
    bar = "\r".join(f" {i}%|{'█' * (i // 10):<10}| {i}/100 [00:{i:02d}<00:{60 - i % 60:02d}]" for i in range(0, 60, 7))
    frames = [
        "UserWarning: The PyTorch API of nested tensors is in prototype stage.",
        "  warnings.warn(",
        bar,
        "Traceback (most recent call last):",
        '  File "/home/u/train.py", line 214, in <module>',
        "    main()",
        '  File "/home/u/train.py", line 180, in main',
        "    out = model(batch)",
    ]
    return "\n".join([*head, *frames, *message.split("\n"), ""])


def chained(message: str) -> str:
    """A chain: the cause first, then what was raised while it was handled, and noise of exits after it."""
    tail = [
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        '  File "/srv/app/runner.py", line 40, in run',
        "    raise JobFailed(job) from error",
        "runner.JobFailed: job 17 failed",
        "Exception ignored in: <function Pool.__del__ at 0x7f3a>",
        "ResourceWarning: unclosed running multiprocessing pool <multiprocessing.pool.Pool state=RUN pool_size=4>",
    ]
    return training(message) + "\n".join(tail)


def torchrun(message: str) -> str:
    """Four ranks that fail alike, and the launcher's wrapper after them."""
    lines = [f"[rank{i % 4}]: step {i} loss {2.0 / (i + 1):.3f}" for i in range(120)]
    for rank in range(4):
        lines += [
            f"[rank{rank}]: Traceback (most recent call last):",
            f'[rank{rank}]:   File "/w/ddp.py", line 9, in <module>',
        ]
        lines += [f"[rank{rank}]: {line}" for line in message.split("\n")]
    lines += [
        "W1130 10:11:12.131000 4711 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 4712 closing signal SIGTERM",
        "E1130 10:11:12.450000 4711 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 0 (pid: 4712) of binary: /opt/conda/bin/python",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "============================================================",
        "train.py FAILED",
        "Root Cause (first observed failure):",
        "  rank      : 0 (local_rank: 0)",
        "  exitcode  : 1 (pid: 4712)",
    ]
    return "\n".join(lines)


def pip(message: str) -> str:
    """What pip prints before it fails."""
    lines = [f"Collecting package-{i}>=1.{i}" for i in range(90)]
    lines += [f"  Downloading package_{i}-1.{i}-py3-none-any.whl ({i + 3} kB)" for i in range(90)]
    return "\n".join([*lines, *message.split("\n"), "", "[notice] A new release of pip is available: 25.0 -> 26.3"])


def docker(message: str) -> str:
    """`docker compose logs`: service and time before every line."""
    lines = (
        [f"GET /health 200 {i} ms" for i in range(150)] + message.split("\n") + ["container exited with code 1"] * 30
    )
    return "\n".join(
        f"trainer-1  | 2026-11-30T10:{i // 60:02d}:{i % 60:02d}.123456789Z {line}" for i, line in enumerate(lines)
    )


def docker_json(message: str) -> str:
    """The file that docker's json-file driver keeps."""
    lines = [f"step {i} ok" for i in range(170)] + message.split("\n") + ["bye"] * 10
    return "\n".join(
        json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-11-30T10:00:00Z"}) for line in lines
    )


def windows(message: str) -> str:
    """Windows paths and line ends."""
    lines = [rf"C:\Users\me\venv\Lib\site-packages\tqdm\std.py step {i}" for i in range(180)]
    lines += [
        "Traceback (most recent call last):",
        r'  File "C:\Users\me\train.py", line 3, in <module>',
        "    import torch",
    ]
    return "\r\n".join([*lines, *message.split("\n"), ""])


def coloured(message: str) -> str:
    """Colours around every word, as rich and pytest write them."""
    lines = [f"\x1b[32mINFO\x1b[0m     step \x1b[1;36m{i}\x1b[0m done" for i in range(180)]
    painted = [" ".join(f"\x1b[1;31m{word}\x1b[0m" for word in line.split(" ")) for line in message.split("\n")]
    return "\n".join([*lines, "\x1b[31mTraceback\x1b[0m (most recent call last):", *painted])


def stamped(message: str) -> str:
    """A logger's prefix on every line, of the message too."""
    lines = [f"batch {i} of 180" for i in range(180)] + message.split("\n") + ["shutting down"] * 20
    return "\n".join(
        f"2026-11-30 10:{i // 60:02d}:{i % 60:02d},042 INFO trainer.loop: {line}" for i, line in enumerate(lines)
    )


def wrapped(message: str) -> str:
    """A terminal or a chat has wrapped the message at 60 columns; quotes have become typographic."""
    rows, row = [], ""
    for word in message.replace("\n", " ").split():
        if row and len(row) + len(word) > 60:
            rows.append(row)
            row = ""
        row = f"{row} {word}" if row else word
    lines = [f"step {i}" for i in range(180)]
    return "\n".join([*lines, *rows, row]).replace("'", "’")


def pytest_output(message: str) -> str:
    """A failure that pytest shows."""
    lines = [f"tests/test_{i}.py ................ [{i // 2:3d}%]" for i in range(180)]
    return "\n".join(
        [*lines, "____ test_it ____", *(f"E       {line}" for line in message.split("\n")), "1 failed in 3.21s"]
    )


LOGS: dict[str, Log] = {
    "training": training,
    "chained": chained,
    "torchrun": torchrun,
    "pip": pip,
    "docker": docker,
    "docker_json": docker_json,
    "windows": windows,
    "coloured": coloured,
    "stamped": stamped,
    "wrapped": wrapped,
    "pytest": pytest_output,
}
