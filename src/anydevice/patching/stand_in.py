"""Classes in the place of those types of `torch` in C++ that can be neither changed nor inherited from: `device`, `Generator`."""

from __future__ import annotations

from typing import Any


class StandIn(type):
    """A class that knows the objects of `original`, and is equal to it. What it makes, a subclass says in `__call__`."""

    original: type

    def __new__(cls, original: type) -> Any:
        fields = {"__module__": "torch", "__doc__": original.__doc__, "__slots__": ()}
        made = super().__new__(cls, original.__name__, (), fields)
        made.original = original
        return made

    def __init__(cls, original: type) -> None:
        super().__init__(original.__name__, (), {})

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.original)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.original)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.original, name)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.original

    def __hash__(cls) -> int:
        return hash(cls.original)

    def __repr__(cls) -> str:
        return repr(cls.original)
