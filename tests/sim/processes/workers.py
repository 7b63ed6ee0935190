"""What the tests run in other processes. It does not import PyTorch before it must: a child that never does pays nothing."""

from __future__ import annotations

import sys
from typing import Any


def placed(queue: Any, given: Any) -> None:
    import torch

    try:
        made = torch.ones(2, device="cuda:1")
        answer = str(made.device), torch.cuda.device_count(), None if given is None else str(given.device)
        if given is not None:
            given.add_(1)
    except Exception as error:
        queue.put(str(error))
    else:
        queue.put(answer)


def sent(queue: Any, done: Any) -> None:
    import torch

    queue.put(torch.arange(3.0, device="cuda:1"))
    done.wait(30)


def operates(queue: Any, given: Any) -> None:
    answers = [str(given[0:1].device)]
    for action in (lambda: given + 1, lambda: given.cpu(), lambda: given.to("cuda")):
        try:
            answers.append(str(action().device))
        except Exception as error:
            answers.append(str(error).splitlines()[0])
    queue.put(answers)


def imported(queue: Any) -> None:
    queue.put("torch" in sys.modules)


def spawned(rank: int, folder: str) -> None:
    import pathlib

    import torch

    pathlib.Path(folder, str(rank)).write_text(str(torch.ones(1).cuda(rank).device))
