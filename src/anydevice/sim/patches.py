"""Attributes set for a while and put back: the only way in which the simulator changes PyTorch."""

from __future__ import annotations

import sys
from typing import Any

_ABSENT: Any = object()


class Patches:
    """Remembers what it replaces. `restore` puts everything back, in reverse order."""

    def __init__(self) -> None:
        self._saved: list[tuple[Any, str, Any]] = []
        self._entries: list[tuple[dict[Any, Any], Any, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set `owner.name`; an attribute that `owner` only inherits is deleted again on `restore`."""
        self._saved.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def item(self, mapping: dict[Any, Any], key: Any, value: Any) -> None:
        """Set `mapping[key]`."""
        self._entries.append((mapping, key, mapping.get(key, _ABSENT)))
        mapping[key] = value

    def everywhere(self, owner: Any, name: str, value: Any) -> None:
        """Set `owner.name`, and whatever modules already took from there by `from owner import name`."""
        original = getattr(owner, name)
        self.set(owner, name, value)
        for module in list(sys.modules.values()):
            try:
                taken = [key for key, held in vars(module).items() if held is original]
            except (TypeError, RuntimeError):  # not a module, or one that is being imported by another thread
                continue
            for key in taken:
                if (module, key) != (owner, name):
                    self.set(module, key, value)

    def restore(self) -> None:
        """Put everything back."""
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
