"""The public face: names that are loaded on first use, and seen by type checkers."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import anydevice


def test_importing_the_package_imports_no_torch():
    code = "import sys, anydevice; dir(anydevice); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_type_checkers_see_the_names_that_are_there():
    tree = ast.parse(Path(anydevice.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.asname: node.module
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    modules = {
        name: home.rpartition(".")[0] if home == f"anydevice.{name}" else home
        for name, home in anydevice._HOMES.items()
    }
    assert seen == modules


def test_every_public_name_is_found_and_listed():
    pytest.importorskip("torch")
    for name in anydevice._HOMES:
        assert getattr(anydevice, name) is not None
        assert name in dir(anydevice)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'anydevice' has no attribute 'get_devices'"):
        anydevice.get_devices  # noqa: B018
