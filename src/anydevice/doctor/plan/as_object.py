"""A plan for programs, as plain lists and dicts."""

from __future__ import annotations

from typing import Any

from anydevice.doctor.plan.choose import Outcome
from anydevice.doctor.plan.plan import Plan
from anydevice.doctor.plan.published import collected
from anydevice.doctor.plan.target import dotted, driver_text
from anydevice.doctor.plan.uv_order import uv_tries
from anydevice.doctor.plan.writing import commands, files

VERSION = 1  # of the form; raised when a program that reads it would break


def as_object(plan: Plan) -> dict[str, Any]:
    """The plan; None stands for what is not known or not there."""
    target = plan.target
    return {
        "version": VERSION,
        "facts_collected": collected(),
        "machine": {
            "system": target.system,
            "arch": target.arch,
            "python": target.python,
            "glibc": dotted(target.glibc) if target.glibc else None,
            "driver": driver_text(target.driver) if target.driver else None,
            "capability": dotted(target.capability) if target.capability else None,
            "gfx": target.gfx,
            "xpu": target.xpu,
            "mps": target.mps,
        },
        "wanted": plan.wanted,
        "cpu": _outcome(plan, plan.cpu),
        "accelerator": _outcome(plan, plan.accelerator) if plan.accelerator is not None else None,
        "uv_tries": list(uv_tries(target)),
        "files": files(plan),
        "notes": list(plan.notes),
    }


def _outcome(plan: Plan, outcome: Outcome) -> dict[str, Any]:
    choice = outcome.choice
    rejected = [{"torch": r.torch, "variant": r.variant, "why": r.why} for r in outcome.rejected]
    if choice is None:
        return {"choice": None, "rejected": rejected}
    return {
        "choice": {
            "torch": str(choice.release.version),
            "torchvision": choice.release.torchvision,
            "torchaudio": choice.release.torchaudio,
            "variant": choice.variant,
            "index": choice.index,
            "wheel_megabytes": choice.megabytes,
            "requirements": list(choice.requirements),
            "unknown": list(choice.unknown),
        },
        "commands": commands(plan, choice),
        "rejected": rejected,
    }
