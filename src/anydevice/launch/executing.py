"""Executes a Python program in this process and ends as it does, by its status or its signal."""

from __future__ import annotations

import atexit
import contextlib
import os
import pkgutil
import runpy
import signal
import sys
import types
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import NoReturn

from anydevice.launch import tracebacks
from anydevice.launch.program import Program

FAILED = 1


def status_of(program: Program) -> object:
    """Run the program to its end; what `sys.exit` takes to end as it did. Its errors are shown as Python shows them."""
    try:
        _execute(program)
    except SystemExit as leave:
        return leave.code
    except KeyboardInterrupt as error:
        tracebacks.show(error)
        return -signal.SIGINT
    except BaseException as error:
        tracebacks.show(error)
        return FAILED
    return 0


def _execute(program: Program) -> None:
    if program.kind == "module":
        sys.argv[:] = [program.name, *program.arguments]
        _put_first(str(Path.cwd()))
        runpy._run_module_as_main(program.name)  # type: ignore[attr-defined]  # what `python -m` calls
        return
    sys.argv[:] = [{"code": "-c", "input": "-"}.get(program.kind, program.name), *program.arguments]
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=sys.modules["builtins"], __annotations__={})
    if program.kind in ("code", "input"):
        sys.modules["__main__"] = main
        _put_first("")
        name, source = ("<string>", program.name) if program.kind == "code" else ("<stdin>", sys.stdin.read())
        exec(compile(source, name, "exec"), main.__dict__)
        return
    path = Path(program.name)
    if path.is_dir() or _is_archive(path):
        _put_first(str(path.absolute()))
        runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]  # as for `python folder`
        return
    main.__file__ = str(Path.cwd()) + os.sep + program.name if not path.is_absolute() else program.name
    main.__loader__ = SourceFileLoader("__main__", main.__file__)
    main.__dict__["__cached__"] = None
    sys.modules["__main__"] = main
    _put_first(str(path.resolve().parent))
    exec(_code_of(path, main.__file__), main.__dict__)


def _put_first(folder: str) -> None:
    """Where Python looks first: in place of the folder of anydevice's own command."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder


def _is_archive(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(4096)
    return start.startswith(b"PK\x03\x04") or (start.startswith(b"#!") and b"PK\x03\x04" in start)


def _code_of(path: Path, name: str) -> types.CodeType:
    with path.open("rb") as file:
        if path.suffix == ".pyc":
            code: types.CodeType | None = pkgutil.read_code(file)  # type: ignore[attr-defined]
            if code is not None:
                return code
        return compile(file.read(), name, "exec")


def end(status: object) -> NoReturn:
    """End with a status, or by the signal that a negative one stands for, so that a shell sees no difference."""
    if isinstance(status, int) and status < 0 and os.name == "posix":
        _signal.append(-status)
        sys.exit(128 - status)
    sys.exit(status)  # type: ignore[arg-type]


_signal: list[int] = []  # what the process shall die of, when all that is to run at its exit has run


@atexit.register  # before the program registers its own, so that it comes after them
def _die() -> None:
    for number in _signal:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
