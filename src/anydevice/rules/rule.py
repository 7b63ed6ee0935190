"""What a rule is: one class with a code, a name, its reasons, its examples, and a check."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from anydevice.finding import Finding
    from anydevice.rules.site import Site
    from anydevice.rules.textfile import TextFile


@dataclass(frozen=True)
class Example:
    """Source that the rule flags, and what `fix` makes of it.

    `after` is the source once the finding's edits are applied (unsafe ones included), without the definition of the
    device that `fix` adds on top; None when the finding is for a person to decide. `path` names the kind of file.
    """

    id: str
    before: str
    after: str | None = None
    path: str = "example.py"
    torch: str | None = None


@dataclass(frozen=True)
class Leave:
    """Source that the rule must leave alone, and why."""

    source: str
    why: str
    path: str = "example.py"


class Rule(ABC):
    """One pattern that ties code to a device. The class docstring says what it finds and why that matters."""

    code: ClassVar[str]
    name: ClassVar[str]
    summary: ClassVar[str]
    examples: ClassVar[tuple[Example, ...]]
    leaves: ClassVar[tuple[Leave, ...]] = ()


class PythonRule(Rule):
    """A rule about Python source.

    `anchors` are the identifiers, and `text_anchors` the words inside string literals, at which `check` is asked.
    A file that has none of them is never parsed, so anchors should be as rare as the pattern allows. `needs` are words
    or regular expressions that a file must have, all of them, before the rule is asked at all (a tuple among them is a
    choice): a rule with common anchors costs nothing where its pattern cannot be.
    """

    anchors: ClassVar[tuple[str, ...]] = ()
    text_anchors: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[tuple[str | tuple[str, ...], ...]] = ()

    @abstractmethod
    def check(self, site: Site) -> Iterator[Finding]:
        """Yield the findings at one occurrence of an anchor."""


class ProjectRule(Rule):
    """A rule that takes more than one file to see; `project/` has its check, the class its documentation."""


class TextRule(Rule):
    """A rule about files that are not Python. `files` are glob patterns of file names.

    A file that has none of `words` is not looked at. A pattern with a slash is compared with the folder's name too.
    `magics` says what of a notebook the rule is also asked about: `shell`, its commands (`!pip install ...`,
    `%env NAME=value`); `written`, the cells that write a file (`%%writefile`).
    """

    files: ClassVar[tuple[str, ...]]
    words: ClassVar[tuple[str, ...]]
    magics: ClassVar[str] = ""

    @abstractmethod
    def check(self, file: TextFile) -> Iterator[Finding]:
        """Yield the findings of one file."""
