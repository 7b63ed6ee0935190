"""Facts about PyTorch's releases, NVIDIA's drivers and known error messages: sourced, dated, and null where unknown.

    facts.releases     torch releases: wheels, pairings, index variants
    facts.drivers      CUDA toolkits, driver floors, uv's thresholds
    facts.processors   GPU architectures that each build was compiled for
    facts.signatures   error messages: cause, mend, and what does not help

Each reads its own data file, once, when it is first asked.
"""

from __future__ import annotations

from datetime import date

from anydevice.doctor.facts.files import read


def collected() -> date:
    """The day on which the facts were collected."""
    return date.fromisoformat(read("cuda")["meta"]["collected"])


def age(today: date) -> str:
    """How old the facts are, in words: `7 days`, `5 months`."""
    days = max(0, (today - collected()).days)
    if days < 60:
        return "1 day" if days == 1 else f"{days} days"
    months = days // 30
    return f"{months} months" if months < 24 else f"{days // 365} years"
