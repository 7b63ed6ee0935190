"""What the simulation costs: per small operator against FakeTensorMode, and for a training step against the plain CPU.

    python benchmarks/simulation_speed.py [--rounds 7] [--steps 3] [--threads 1]

Plain, simulated and fake runs take turns, so that a machine whose speed drifts treats them alike; the least time of an
operator and the median of a step are printed. The network is a residual one of the size of ResNet-18 (11.7 million
parameters), trained with SGD on made-up images.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from anydevice.sim import simulate

OPERATORS: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "a + b": lambda a, b: a + b,
    "relu(a)": lambda a, b: torch.relu(a),
    "a.add_(b)": lambda a, b: a.add_(b),
    "a.mul(2.0)": lambda a, b: a.mul(2.0),
    "a.view(2, 2)": lambda a, b: a.view(2, 2),
    "a.sum()": lambda a, b: a.sum(),
    "zeros_like(a)": lambda a, b: torch.zeros_like(a),
}


class Block(nn.Module):
    """Two 3x3 convolutions and what goes around them."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outside)
        self.second = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outside)
        self.around: nn.Module = nn.Identity()
        if stride != 1 or inside != outside:
            self.around = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's sum with its input."""
        y = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(self.second_norm(self.second(y)) + self.around(x))


def network() -> nn.Module:
    """Eight blocks of 64 to 512 channels between a stem and a classifier."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    inside = 64
    for outside, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(inside, outside, stride), Block(outside, outside, 1)]
        inside = outside
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def per_call(call: Callable[[], object], count: int = 2000) -> float:
    """Seconds of one call."""
    for _ in range(20):
        call()
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def small_operators(rounds: int) -> None:
    """Print microseconds per operator, and the overheads."""
    least: dict[tuple[str, str], float] = {}

    def note(kind: str, count: int, device: str) -> None:
        a, b = torch.ones(4, device=device), torch.ones(4, device=device)
        for name, operator in OPERATORS.items():
            seconds = per_call(lambda operator=operator: operator(a, b), count)  # type: ignore[misc]
            least[kind, name] = min(least.get((kind, name), seconds), seconds)

    for _ in range(rounds):
        note("plain", 2000, "cpu")
        with simulate("cuda"):
            note("simulated", 2000, "cuda")
        with FakeTensorMode():
            note("fake", 300, "cuda")
    print(f"{'operator':16}{'plain':>9}{'simulated':>11}{'fake':>9}   overhead of the simulation / of FakeTensorMode")
    shares = []
    for name in OPERATORS:
        plain, simulated, fake = (least[kind, name] * 1e6 for kind in ("plain", "simulated", "fake"))
        shares.append((simulated - plain) / (fake - plain))
        print(f"{name:16}{plain:7.2f}us{simulated:9.2f}us{fake:7.2f}us   {shares[-1]:.3f}")
    print(
        f"overhead per small operator, median: {statistics.median(shares):.3f} of FakeTensorMode's (goal: at most 0.1)"
    )


def step_of(device: str) -> Callable[[], float]:
    """A training step on `device`, which gives its loss."""
    torch.manual_seed(0)
    model = network().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.randn(4, 3, 112, 112).to(device), torch.randint(1000, (4,)).to(device)

    def step() -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def training_step(steps: int) -> None:
    """Print seconds per step, and check that both learn the same."""
    times: dict[str, list[float]] = {"cpu": [], "cuda": []}
    losses: dict[str, list[float]] = {"cpu": [], "cuda": []}
    plain = step_of("cpu")
    with simulate("cuda") as simulation:
        simulated = step_of("cuda")

    def timed(kind: str, step: Callable[[], float]) -> None:
        start = time.perf_counter()
        losses[kind].append(step())
        times[kind].append(time.perf_counter() - start)

    for _ in range(steps):
        timed("cpu", plain)
        with simulate(simulation.world):
            timed("cuda", simulated)
    if not torch.allclose(torch.tensor(losses["cpu"]), torch.tensor(losses["cuda"]), rtol=1e-3):
        raise SystemExit(f"the simulated training learns otherwise: {losses}")
    before, after = (statistics.median(times[kind][1:]) for kind in ("cpu", "cuda"))
    print(
        f"ResNet-18-sized training step: plain {before:.3f} s, simulated {after:.3f} s, "
        f"{after / before:.2f} times (goal: at most 1.2)"
    )


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="of the small operators")
    parser.add_argument("--steps", type=int, default=9, help="of training, the first of which is not counted")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    small_operators(options.rounds)
    training_step(max(2, options.steps))
    return 0


if __name__ == "__main__":
    sys.exit(main())
