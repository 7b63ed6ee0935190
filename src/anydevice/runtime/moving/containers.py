"""The things that hold other things: what is inside each, and how one like it is made around other contents.

They are read and written by the built-in type beneath (`dict.items`, `list.__iter__`), never by what a subclass makes
of it: `__init__` is not run, nothing loads lazily, and attributes come along.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import inspect
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch

Resolve = Callable[[Any], Any]
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class made by a class statement
_NOTHING = object()


class Kind(ABC):
    """How one class of containers is taken apart and put together."""

    mutable = True

    @abstractmethod
    def contents(self, holder: Any) -> Iterable[Any]:
        """What is inside."""

    def shell(self, holder: Any) -> Any:
        """A new one without its contents, so that contents may point back to it."""
        raise NotImplementedError

    def fill(self, shell: Any, holder: Any, resolve: Resolve) -> None:
        """Put what `resolve` makes of the contents of `holder` into `shell`."""
        raise NotImplementedError

    def build(self, holder: Any, resolve: Resolve) -> Any:
        """A new one around what `resolve` makes of the contents: for those that cannot be filled later."""
        shell = self.shell(holder)
        self.fill(shell, holder, resolve)
        return shell


class _Attributes(Kind):
    """An object whose state is its attributes, in `__dict__` or in slots: dataclasses, attrs classes, UserDict."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.native: Any = next(base for base in cls.__mro__ if not base.__flags__ & _HEAP_TYPE)
        slots = [slot for base in cls.__mro__ for slot in _slots(base)]
        self.slots = [slot for slot in slots if slot not in ("__dict__", "__weakref__")]

    def attributes(self, holder: Any) -> list[tuple[str, Any]]:
        found = list(getattr(holder, "__dict__", {}).items())
        for slot in self.slots:
            value = getattr(holder, slot, _NOTHING)
            if value is not _NOTHING:
                found.append((slot, value))
        return found

    def contents(self, holder: Any) -> Iterable[Any]:
        return [value for _, value in self.attributes(holder)]

    def shell(self, holder: Any) -> Any:
        return self.native.__new__(self.cls)

    def fill(self, shell: Any, holder: Any, resolve: Resolve) -> None:
        for name, value in self.attributes(holder):
            object.__setattr__(shell, name, resolve(value))  # also where the class is frozen


class _Dict(_Attributes):
    """A dict of any kind. Its keys stay as they are."""

    def contents(self, holder: Any) -> Iterable[Any]:
        return [*dict.values(holder), *super().contents(holder)]

    def shell(self, holder: Any) -> Any:
        made = self.native.__new__(self.cls)
        if isinstance(holder, collections.defaultdict):
            made.default_factory = holder.default_factory
        return made

    def fill(self, shell: Any, holder: Any, resolve: Resolve) -> None:
        put = self.native.__setitem__  # an OrderedDict's own, which keeps the order
        for key, value in dict.items(holder):
            put(shell, key, resolve(value))
        super().fill(shell, holder, resolve)


class _List(_Attributes):
    """A list of any kind."""

    def contents(self, holder: Any) -> Iterable[Any]:
        return [*list.__iter__(holder), *super().contents(holder)]

    def fill(self, shell: Any, holder: Any, resolve: Resolve) -> None:
        list.extend(shell, [resolve(value) for value in list.__iter__(holder)])
        super().fill(shell, holder, resolve)


class _Set(_Attributes):
    """A set of any kind."""

    def contents(self, holder: Any) -> Iterable[Any]:
        return [*set.__iter__(holder), *super().contents(holder)]

    def fill(self, shell: Any, holder: Any, resolve: Resolve) -> None:
        set.update(shell, [resolve(value) for value in set.__iter__(holder)])
        super().fill(shell, holder, resolve)


class _Deque(_Attributes):
    """A deque of any kind, with its greatest length."""

    def contents(self, holder: Any) -> Iterable[Any]:
        return [*collections.deque.__iter__(holder), *super().contents(holder)]

    def fill(self, shell: Any, holder: Any, resolve: Resolve) -> None:
        values = [resolve(value) for value in collections.deque.__iter__(holder)]
        collections.deque.__init__(shell, values, holder.maxlen)
        super().fill(shell, holder, resolve)


class _Tuple(_Attributes):
    """A tuple of any kind: named ones, and PyTorch's return types, which only their own constructor can make."""

    mutable = False

    def __init__(self, cls: type) -> None:
        super().__init__(cls)
        self.structure = hasattr(cls, "n_sequence_fields")

    def contents(self, holder: Any) -> Iterable[Any]:
        return [*tuple.__iter__(holder), *super().contents(holder)]

    def build(self, holder: Any, resolve: Resolve) -> Any:
        values = [resolve(value) for value in tuple.__iter__(holder)]
        if self.structure:
            return self.cls(values)
        made: Any = tuple.__new__(self.cls, values)
        super().fill(made, holder, resolve)
        return made


class _FrozenSet(_Attributes):
    """A frozenset of any kind."""

    mutable = False

    def contents(self, holder: Any) -> Iterable[Any]:
        return [*frozenset.__iter__(holder), *super().contents(holder)]

    def build(self, holder: Any, resolve: Resolve) -> Any:
        made: Any = frozenset.__new__(self.cls, [resolve(value) for value in frozenset.__iter__(holder)])
        super().fill(made, holder, resolve)
        return made


class _Proxy(Kind):
    """A read-only view of a mapping (`types.MappingProxyType`): a view of the moved mapping."""

    mutable = False

    def contents(self, holder: Any) -> Iterable[Any]:
        return list(holder.values())

    def build(self, holder: Any, resolve: Resolve) -> Any:
        return types.MappingProxyType({key: resolve(value) for key, value in holder.items()})


# Never looked into: they have no tensors, their contents are not theirs, or they move by other means.
_CLOSED: tuple[type, ...] = (
    torch.Tensor,
    torch.nn.Module,
    torch.optim.Optimizer,
    torch.utils.data.Dataset,
    torch.Size,
    enum.Enum,
    BaseException,
    type,
    types.ModuleType,
)
_NATIVE: tuple[tuple[type, type[_Attributes]], ...] = (
    (dict, _Dict),
    (list, _List),
    (tuple, _Tuple),
    (set, _Set),
    (frozenset, _FrozenSet),
    (collections.deque, _Deque),
)


@lru_cache(maxsize=4096)
def kind_of(cls: type) -> Kind | None:
    """How to take objects of this class apart; None for what is not looked into."""
    if issubclass(cls, _CLOSED):
        return None
    for native, kind in _NATIVE:
        if issubclass(cls, native):
            return kind(cls)
    if issubclass(cls, types.MappingProxyType):
        return _Proxy()
    if dataclasses.is_dataclass(cls) or hasattr(cls, "__attrs_attrs__") or issubclass(cls, _STATEFUL):
        return _Attributes(cls)
    made_here = bool(cls.__flags__ & _HEAP_TYPE)
    # what is asked item by item may load lazily; what it keeps in its attributes is in memory
    return _Attributes(cls) if made_here and issubclass(cls, (Mapping, Sequence)) else None


_STATEFUL = (collections.UserDict, collections.UserList, types.SimpleNamespace)


def _slots(cls: type) -> Iterable[str]:
    slots = cls.__dict__.get("__slots__", ())
    for slot in (slots,) if isinstance(slots, str) else tuple(slots):
        yield f"_{cls.__name__.lstrip('_')}{slot}" if slot.startswith("__") and not slot.endswith("__") else slot


@lru_cache(maxsize=4096)
def moves_itself(cls: type) -> tuple[bool, bool]:
    """Whether the class has a `to` that takes a device, and whether that takes `non_blocking` too.

    Many a `to` means something else (a unit, a file format), so its signature must say so: a parameter named or
    annotated as a device; or any arguments at all, where the class has a `device`, `cpu` or `cuda` beside it.
    """
    to = getattr(cls, "to", None)
    if to is None or issubclass(cls, (type, *_CLOSED[1:4])):
        return False, False
    try:
        parameters = [*inspect.signature(to).parameters.values()][1:]
    except (TypeError, ValueError):
        return False, False
    named = any(item.name == "device" or "device" in str(item.annotation).lower() for item in parameters)
    anything = bool(parameters) and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL
    takes_device = named or (anything and any(hasattr(cls, name) for name in ("device", "cpu", "cuda")))
    waits = any(item.name == "non_blocking" or item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters)
    return takes_device, takes_device and waits
