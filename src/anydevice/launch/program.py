"""What the user wants to run, and where it is. Nothing runs here, and PyTorch is not loaded."""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

# what a first line says of a Python script: `#!/usr/bin/env python3`, or the shell trick that installers use for long paths
_PYTHON = re.compile(rb"^#!.*python|^#!/bin/sh\s*\n'''exec' .*python", re.IGNORECASE)

_INTERPRETER = re.compile(r"python[\d.]*(\.exe)?$")


@dataclass(frozen=True)
class Program:
    """What to run.

    Attributes:
        kind: `script`, `module` (`-m`), `code` (`-c`), `input` (`-`), or `command` for what is not Python itself, and
            starts Python programs perhaps (`bash train.sh`, `make test`).
        name: the path, the module, the source, or the command.
        arguments: what the program gets.
    """

    kind: str
    name: str
    arguments: tuple[str, ...] = ()


def find(name: str, arguments: tuple[str, ...] = ()) -> Program:
    """The program that a user means by `name`: a script, a folder or archive with a `__main__.py`, or a command.

    Raises:
        FileNotFoundError: there is none.
    """
    if name == "-":
        return Program("input", name, arguments)
    if _INTERPRETER.match(name):
        return _of_python(name, arguments)
    path = Path(name)
    if path.is_file():
        return Program("command" if _is_foreign(path) else "script", name, arguments)
    if path.is_dir():
        if (path / "__main__.py").is_file():
            return Program("script", name, arguments)
        raise FileNotFoundError(f"cannot run '{name}': a folder without a __main__.py")
    command = None if os.path.dirname(name) else _on_path(name)
    if command is None:
        raise FileNotFoundError(f"cannot run '{name}': not found, neither as a file nor as a command")
    return Program("script" if _is_script(Path(command)) else "command", command, arguments)


def _of_python(name: str, arguments: tuple[str, ...]) -> Program:
    """What `python` is asked to run: it runs in this Python. With options for the interpreter it is a command."""
    first, rest = arguments[:1], arguments[1:]
    if first == ("-m",) and rest:
        return Program("module", rest[0], rest[1:])
    if first == ("-c",) and rest:
        return Program("code", rest[0], rest[1:])
    if first and (first == ("-",) or not first[0].startswith("-")):
        return find(first[0], rest)
    return Program("command", sys.executable, arguments)


def _on_path(name: str) -> str | None:
    """The command, looked for beside this Python first: its environment may not be the active one."""
    return shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)


def _is_script(path: Path) -> bool:
    with path.open("rb") as file:
        return _PYTHON.match(file.read(1000)) is not None


def _is_foreign(path: Path) -> bool:
    """Is it a file that the system would run, and not by Python?"""
    with path.open("rb") as file:
        start = file.read(1000)
    if path.suffix in (".py", ".pyc", ".pyw", ".zip", ".pyz"):
        return False
    return start.startswith((b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe")) or (
        start.startswith(b"#!") and _PYTHON.match(start) is None
    )
