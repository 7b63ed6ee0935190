"""What is known while a tensor is followed: the way that it came, the operation at which it meets another, and the
homes of values as they are at this point."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from tree_sitter import Node

from anydevice.rules.home import Env, Home
from anydevice.rules.residence import Residence

PLACED = (Home.DEVICE, Home.PLACED, Home.MOVED_MODULE)


@dataclass(frozen=True)
class Meeting:
    """`where` is the operation, `partner` the operand on the other device; `calls` brought the tensor there.

    `kind` is operation, module (a moved module is called with it), index (the index was moved), or in-place.
    """

    where: Node
    partner: Node
    kind: str
    calls: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Way:
    """How a tensor came here: through `calls`; `back` are those to return to, innermost last."""

    calls: tuple[Node, ...] = ()
    back: tuple[Node, ...] = ()


START = Way()


class Trail(ABC):
    """One tensor on its way. `env` says where the parameters of the functions that it is in live."""

    def __init__(self, residence: Residence) -> None:
        self.residence = residence
        self.module = residence.module
        self.env: Env = {}
        self.likely: Meeting | None = None  # an operation with a value of which nothing is known

    @abstractmethod
    def meeting(self, node: Node, way: Way = START) -> Meeting | None:
        """Where the value of `node` meets a moved tensor."""

    def of(self, node: Node) -> Home | None:
        """The home of the value of `node` on this way."""
        return self.residence.of(node, self.env)

    def moved(self, node: Node) -> bool:
        """Whether the value of `node` was moved."""
        return self.of(node) is Home.DEVICE
