"""Child processes keep the redirection: through the environment, and the start-up folder on their path."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

from anydevice.launch import children
from anydevice.redirect.redirection import Redirection

VARIABLE = "ANYDEVICE_RUN"


def inherited(kind: str, environment: Mapping[str, str]) -> dict[str, str]:
    """What a child must find in its environment to be redirected to this kind of device."""
    return children.inherited(VARIABLE, kind, environment)


def keep(redirection: Redirection) -> None:
    """Redirect the Python processes that are started from now on, those with an environment of their own too."""
    os.environ.update(inherited(redirection.kind, os.environ))
    subprocess.Popen.__init__ = _inheriting(subprocess.Popen.__init__, redirection.kind)  # type: ignore[method-assign]


def start() -> None:
    """Redirect this process as the environment says."""
    from anydevice.launch import tracebacks

    redirection = Redirection(os.environ[VARIABLE])
    redirection.install()
    keep(redirection)
    tracebacks.hide_ours()


def _inheriting(initialise: Callable[..., None], kind: str) -> Callable[..., None]:
    @functools.wraps(initialise)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        environment = kwargs.get("env")
        if isinstance(environment, Mapping):
            kwargs["env"] = {**environment, **inherited(kind, environment)}
        initialise(self, *args, **kwargs)

    return init
