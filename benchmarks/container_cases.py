"""What batches are made of: each case makes one, and says whether what a mover made of it is right."""

from __future__ import annotations

import collections
import dataclasses
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch.nn.utils.rnn import PackedSequence, pack_sequence

One = collections.namedtuple("One", ["x"])
Check = Callable[[Any, Any, torch.device], bool]


@dataclasses.dataclass(frozen=True)
class Case:
    """A container, made anew for each mover, and what must be true of it afterwards."""

    name: str
    make: Callable[[], Any]
    right: Check


class Pair(NamedTuple):
    """A named tuple."""

    x: torch.Tensor
    y: int


@dataclasses.dataclass
class Plain:
    """A dataclass."""

    x: torch.Tensor
    name: str = "a"


@dataclasses.dataclass(frozen=True)
class Frozen:
    """A frozen dataclass."""

    x: torch.Tensor


@dataclasses.dataclass
class Derived:
    """A dataclass with a field that its constructor does not take."""

    x: torch.Tensor
    twice: torch.Tensor = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.twice = self.x * 2


@dataclasses.dataclass(slots=True)
class Slotted:
    """A dataclass with slots."""

    x: torch.Tensor


class Encoding(collections.UserDict):  # type: ignore[type-arg]
    """A UserDict with an attribute, and a `to` that changes it in place, as tokenizers' encodings are."""

    def __init__(self, data: Any = None, lengths: Any = None) -> None:
        super().__init__(data)
        self.lengths = lengths

    def to(self, device: Any) -> Encoding:
        """Move the values of this very object."""
        self.data = {key: value.to(device) for key, value in self.data.items()}
        return self


class TwoArguments(dict):  # type: ignore[type-arg]
    """A dict whose constructor takes two arguments."""

    def __init__(self, name: str, values: Any) -> None:
        super().__init__(values)
        self.name = name


class Labelled(list):  # type: ignore[type-arg]
    """A list with an attribute."""

    label = ""


class Lazy(Mapping):  # type: ignore[type-arg]
    """A mapping that loads what it is asked for, such as an open file."""

    def __init__(self) -> None:
        self.loaded = 0

    def __getitem__(self, key: str) -> torch.Tensor:
        self.loaded += 1
        return torch.ones(2)

    def __iter__(self) -> Iterator[str]:
        return iter("ab")

    def __len__(self) -> int:
        return 2


class Held(Mapping):  # type: ignore[type-arg]
    """A mapping of its own making, that holds its tensors."""

    def __init__(self, values: Any) -> None:
        self.values_held = values

    def __getitem__(self, key: str) -> torch.Tensor:
        return self.values_held[key]  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_held)

    def __len__(self) -> int:
        return len(self.values_held)


class Moves:
    """An object with a `to(device)`."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def to(self, device: Any) -> Moves:
        """A new one."""
        return Moves(self.x.to(device))


class MovesInPlace(Moves):
    """An object whose `to(device)` changes it and returns nothing."""

    def to(self, device: Any) -> None:  # type: ignore[override]
        """Move this one."""
        self.x = self.x.to(device)


class Quantity:
    """A number with a unit, whose `to` takes a unit."""

    def to(self, unit: str) -> Quantity:
        """In another unit."""
        if unit not in ("m", "km"):
            raise ValueError(f"no unit {unit}")
        return self


class Tagged(torch.Tensor):
    """A tensor of a class of its own, with an attribute."""


def _tagged() -> Tagged:
    made = torch.ones(2).as_subclass(Tagged)
    made.tag = "a"  # type: ignore[attr-defined]
    return made


def _x() -> torch.Tensor:
    return torch.arange(4.0)


def _cycle() -> list[Any]:
    made: list[Any] = [_x()]
    made.append({"again": made})
    return made


def _views() -> list[torch.Tensor]:
    base = torch.arange(4.0)
    return [base, base[1:3]]


def _bytes() -> list[torch.Tensor]:
    base = torch.arange(4.0)
    return [base, base.view(torch.int32)[2:]]


def at(device: torch.device, *tensors: torch.Tensor) -> bool:
    """Whether all are on the device."""
    return all(tensor.device == device for tensor in tensors)


def shares(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether both lie in one memory."""
    return left.untyped_storage()._cdata == right.untyped_storage()._cdata


def _kept(new: Any, old: Any, device: torch.device) -> bool:
    return new is old


CASES: tuple[Case, ...] = (
    Case("tensor", _x, lambda new, old, d: at(d, new)),
    Case("tuple", lambda: (_x(), 1), lambda new, old, d: type(new) is tuple and at(d, new[0]) and new[1] == 1),
    Case("namedtuple of two", lambda: Pair(_x(), 1), lambda new, old, d: type(new) is Pair and at(d, new.x)),
    Case("namedtuple of one", lambda: One(_x()), lambda new, old, d: type(new) is One and at(d, new.x)),
    Case("return_types.max", lambda: torch.ones(2, 2).max(0), lambda new, old, d: type(new) is type(old) and at(d, new.values, new.indices)),
    Case("OrderedDict", lambda: collections.OrderedDict(b=_x(), a=_x()), lambda new, old, d: type(new) is type(old) and list(new) == ["b", "a"] and at(d, *new.values())),
    Case("defaultdict", lambda: collections.defaultdict(list, a=_x()), lambda new, old, d: new["new"] == [] and at(d, new["a"])),
    Case("UserDict with attributes", lambda: Encoding({"a": _x()}, lengths=[1]), lambda new, old, d: type(new) is Encoding and new.lengths == [1] and at(d, new["a"])),
    Case("UserDict is not changed", lambda: Encoding({"a": _x()}), lambda new, old, d: at(torch.device("cpu"), old["a"]) and at(d, new["a"])),
    Case("dict subclass of two arguments", lambda: TwoArguments("n", {"a": _x()}), lambda new, old, d: type(new) is TwoArguments and new.name == "n" and at(d, new["a"])),
    Case("MappingProxyType", lambda: types.MappingProxyType({"a": _x()}), lambda new, old, d: at(d, new["a"]) and isinstance(new, Mapping)),
    Case("list subclass with attributes", lambda: _labelled(), lambda new, old, d: type(new) is Labelled and new.label == "a" and at(d, new[0])),
    Case("dataclass", lambda: Plain(_x()), lambda new, old, d: type(new) is Plain and at(d, new.x) and new.name == "a"),
    Case("dataclass is not changed", lambda: Plain(_x()), lambda new, old, d: at(torch.device("cpu"), old.x) and at(d, new.x)),
    Case("frozen dataclass", lambda: Frozen(_x()), lambda new, old, d: type(new) is Frozen and at(d, new.x)),
    Case("dataclass with init=False", lambda: Derived(_x()), lambda new, old, d: at(d, new.x, new.twice)),
    Case("dataclass with slots", lambda: Slotted(_x()), lambda new, old, d: at(d, new.x)),
    Case("PackedSequence", lambda: pack_sequence([torch.ones(2), torch.ones(1)]), lambda new, old, d: type(new) is PackedSequence and at(d, new.data) and at(torch.device("cpu"), new.batch_sizes)),
    Case("sparse COO", lambda: torch.eye(2).to_sparse(), lambda new, old, d: new.layout is torch.sparse_coo and at(d, new)),
    Case("sparse CSR", lambda: torch.eye(2).to_sparse_csr(), lambda new, old, d: new.layout is torch.sparse_csr and at(d, new)),
    Case("a tensor twice is one", lambda: [_x()] * 2, lambda new, old, d: new[0] is new[1] and at(d, new[0])),
    Case("a list twice is one", lambda: [[_x()]] * 2, lambda new, old, d: new[0] is new[1] and at(d, new[0][0])),
    Case("views stay views", _views, lambda new, old, d: shares(*new) and at(d, *new) and new[1].storage_offset() == 1),
    Case("views of another dtype", _bytes, lambda new, old, d: shares(*new) and at(d, *new) and new[1].dtype is torch.int32),
    Case("expanded stays expanded", lambda: torch.ones(1).expand(1000), lambda new, old, d: new.stride() == (0,) and at(d, new)),
    Case(".to without non_blocking", lambda: [Moves(_x())], lambda new, old, d: at(d, new[0].x)),
    Case(".to that returns None", lambda: [MovesInPlace(_x())], lambda new, old, d: isinstance(new[0], MovesInPlace) and at(d, new[0].x)),
    Case(".to of a unit is not called", lambda: [Quantity(), _x()], lambda new, old, d: new[0] is old[0] and at(d, new[1])),
    Case("str, int, None", lambda: ["a", 1, None, _x()], lambda new, old, d: new[:3] == ["a", 1, None] and at(d, new[3])),
    Case("set of tensors", lambda: {_x()}, lambda new, old, d: type(new) is set and at(d, *new)),
    Case("frozenset of tensors", lambda: frozenset({_x()}), lambda new, old, d: type(new) is frozenset and at(d, *new)),
    Case("set of strings", lambda: {"a"}, _kept),
    Case("deque", lambda: collections.deque([_x()], maxlen=3), lambda new, old, d: new.maxlen == 3 and at(d, new[0])),
    Case("range", lambda: [range(3), _x()], lambda new, old, d: new[0] == range(3) and at(d, new[1])),
    Case("torch.Size", lambda: [torch.Size([1]), _x()], lambda new, old, d: type(new[0]) is torch.Size and at(d, new[1])),
    Case("module inside is left alone", lambda: [torch.nn.Linear(1, 1), _x()], lambda new, old, d: new[0] is old[0] and at(torch.device("cpu"), old[0].weight)),
    Case("distribution inside is left alone", lambda: [torch.distributions.Normal(_x(), 1.0), _x()], lambda new, old, d: new[0] is old[0] and at(d, new[1])),
    Case("tensor subclass with attributes", _tagged, lambda new, old, d: type(new) is Tagged and new.tag == "a" and at(d, new)),
    Case("contains itself", _cycle, lambda new, old, d: new[1]["again"] is new and new is not old and at(d, new[0])),
    Case("lazy mapping is not loaded", Lazy, lambda new, old, d: new is old and old.loaded == 0),
    Case("mapping of its own making", lambda: Held({"a": _x()}), lambda new, old, d: type(new) is Held and at(d, new["a"])),
    Case("SimpleNamespace", lambda: types.SimpleNamespace(x=_x()), lambda new, old, d: at(d, new.x)),
    Case("nested 3,000 deep", lambda: _deep(3000), lambda new, old, d: at(d, _bottom(new))),
    Case("no tensors: the same object", lambda: {"a": [1, (2, "b")]}, _kept),
)  # fmt: skip


def _labelled() -> Labelled:
    made = Labelled([_x()])
    made.label = "a"
    return made


def _deep(depth: int) -> Any:
    made: Any = [_x()]
    for _ in range(depth):
        made = [made]
    return made


def _bottom(data: Any) -> Any:
    while isinstance(data, list):
        data = data[0]
    return data
