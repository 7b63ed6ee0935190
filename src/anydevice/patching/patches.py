"""Attributes set for a while and put back: the only way in which the simulator changes PyTorch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, MutableMapping
from types import FunctionType
from typing import Any

_ABSENT: Any = object()
_UNTOUCHED = ("anydevice", "torch._C")  # what the simulator itself builds on


class Patches:
    """Remembers what it replaces. `restore` puts everything back, in reverse order."""

    def __init__(self) -> None:
        self._saved: list[tuple[Any, str, Any]] = []
        self._entries: list[tuple[MutableMapping[Any, Any], Any, Any]] = []
        self._actions: list[Callable[[], object]] = []
        self._replaced: dict[int, tuple[Any, Any]] = {}

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set `owner.name`; an attribute that `owner` only inherits is deleted again on `restore`."""
        self._saved.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def item(self, mapping: MutableMapping[Any, Any], key: Any, value: Any) -> None:
        """Set `mapping[key]`."""
        self._entries.append((mapping, key, mapping.get(key, _ABSENT)))
        mapping[key] = value

    def everywhere(self, owner: Any, name: str, value: Any) -> None:
        """Set `owner.name`, and on `spread` whatever modules took from there by `from owner import name`."""
        original = getattr(owner, name)
        if hasattr(original, "__wrapped__") and isinstance(value, FunctionType) and not hasattr(value, "__wrapped__"):
            value.__wrapped__ = original.__wrapped__  # type: ignore[attr-defined]  # PyTorch's compiler asks for it
        self.set(owner, name, value)
        for key, (first, known) in list(self._replaced.items()):
            if known is original:  # replaced already: those who took the first get the last
                self._replaced[key] = (first, value)
        if callable(original):  # a constant such as False is in every module
            self._replaced[id(original)] = (original, value)

    def known(self, owner: Any, values: Mapping[str, Any]) -> None:
        """Set those attributes `everywhere` that this version of PyTorch has; none where there is no `owner`."""
        for name, value in values.items():
            if hasattr(owner, name):
                self.everywhere(owner, name, value)

    def replaced(self) -> list[tuple[Any, Any]]:
        """(what was there, what is there now) of every function that is replaced."""
        pairs = [(saved, vars(owner).get(name)) for owner, name, saved in self._saved]
        pairs += self._replaced.values()
        return [(old, new) for old, new in pairs if callable(old) and callable(new)]

    def of(self, owner: Any) -> list[tuple[str, Any, Any]]:
        """(name, what was there, what is there now) of every attribute of `owner` that is replaced."""
        names = dict.fromkeys(name for where, name, _ in self._saved if where is owner)
        inherited = {name: getattr(super(owner, owner), name, None) for name in names}
        first = {name: saved for where, name, saved in reversed(self._saved) if where is owner}
        return [(name, inherited[name] if first[name] is _ABSENT else first[name], vars(owner)[name]) for name in names]

    def spread(self) -> None:
        """Look once through all modules for what `everywhere` has replaced."""
        for name, module in list(sys.modules.items()):
            if name.startswith(_UNTOUCHED):
                continue
            try:
                held = list(vars(module).items())
            except (TypeError, RuntimeError):  # not a module, or one that another thread imports
                continue
            for key, value in held:
                known = self._replaced.get(id(value))
                if known is not None and known[0] is value:
                    self.set(module, key, known[1])

    def afterwards(self, action: Callable[[], object]) -> None:
        """Run `action` at the beginning of `restore`."""
        self._actions.append(action)

    def restore(self) -> None:
        """Put everything back."""
        while self._actions:
            self._actions.pop()()
        while self._entries:
            mapping, key, value = self._entries.pop()
            if value is _ABSENT:
                mapping.pop(key, None)
            else:
                mapping[key] = value
        while self._saved:
            owner, name, value = self._saved.pop()
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
        self._replaced.clear()
