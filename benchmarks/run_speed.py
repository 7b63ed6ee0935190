"""What `anydevice run` costs: a loop of small layers, written for CUDA and redirected, against device-agnostic code.

    python benchmarks/run_speed.py [--steps 200] [--rounds 61]

Both run in one process, in turns, on the CPU; the figure is the median over rounds of the ratio of times.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from torch import nn

from anydevice.redirect.redirection import Redirection


def train(steps: int, *, hard_coded: bool) -> float:
    """Seconds of a training loop. The hard-coded one asks CUDA for what the other asks `device` for."""
    torch.manual_seed(0)
    device = torch.device("cpu")
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    model = model.cuda() if hard_coded else model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    data, wanted = torch.randn(32, 64), torch.randint(8, (32,))
    begin = time.perf_counter()
    for _ in range(steps):
        inputs = data.cuda(non_blocking=True) if hard_coded else data.to(device, non_blocking=True)
        labels = wanted.cuda(non_blocking=True) if hard_coded else wanted.to(device, non_blocking=True)
        noise = torch.randn(32, 64, device="cuda") if hard_coded else torch.randn(32, 64, device=device)
        loss = nn.functional.cross_entropy(model(inputs + 0.01 * noise), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return time.perf_counter() - begin


def main() -> None:
    """Print the median cost, and the range."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=61)
    options = parser.parse_args()
    torch.set_num_threads(1)
    train(options.steps // 10, hard_coded=False)
    ratios = []
    for _ in range(options.rounds):
        plain = train(options.steps, hard_coded=False)
        redirection = Redirection("cpu")
        redirection.install()
        try:
            redirected = train(options.steps, hard_coded=True)
        finally:
            redirection.uninstall()
        ratios.append(redirected / plain)
    costs = sorted(100 * (ratio - 1) for ratio in ratios)
    print(
        f"redirected against device-agnostic: {statistics.median(costs):+.1f} % ({costs[0]:+.1f} to {costs[-1]:+.1f})"
    )


if __name__ == "__main__":
    main()
