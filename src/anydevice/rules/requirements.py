"""Where requirements stand in requirements.txt, pyproject.toml, setup.cfg, Pipfile and conda's environment.yml."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from anydevice.rules.lines import hits
from anydevice.rules.textfile import TextFile

LISTS = ("*requirements*.txt", "*requirements*.in", "requirements/*.txt", "*constraints*.txt", "req.txt", "reqs.txt")
ENVIRONMENTS = ("*env*.yml", "*env*.yaml", "conda*.yml", "conda*.yaml")
MANIFESTS = (*LISTS, "pyproject.toml", "setup.cfg", "Pipfile", *ENVIRONMENTS)

# A file whose name says that it is for one kind of machine is the usual answer already.
_VARIANT = re.compile(r"gpu|cuda|cu\d\d|nvidia", re.I)

_BODY = (
    rb"(?P<name>[A-Za-z][\w.\-]*)(?P<extras>\[[\w,.\- ]*\])?"
    rb"(?P<spec>(?:[ \t]*,?[ \t]*(?:===?|[<>!~]=?)[ \t]*[\w.*+!\-]+)*)"
)
_REST = rb"(?P<rest>[ \t]*(?:[;@\\\-#][^\n]*)?)[\r]?$"
_LINE = re.compile(rb"(?m)^(?P<lead>[ \t]*)(?P<quote>)" + _BODY + _REST)
_ITEM = re.compile(
    rb"(?m)^(?P<lead>[ \t]*-[ \t]+)(?P<quote>[\"']?)" + _BODY + rb"(?P<rest>[ \t]*(?:[;@#\"'][^\n]*)?)[\r]?$"
)
_STRING = re.compile(
    rb"(?m)(?P<lead>^[ \t]*|(?<=[\[,])[ \t]*)(?P<quote>[\"'])" + _BODY + rb"(?P<rest>(?:(?!(?P=quote))[^\n])*)"
    rb"(?P=quote)(?=[ \t]*(?:,|\]|\#|\r?$))"
)
_ENTRY = re.compile(
    rb"(?m)^(?P<lead>)(?P<quote>)[\"']?(?P<name>[A-Za-z][\w.\-]*)[\"']?(?P<extras>)(?P<spec>[ \t]*=[ \t]*[^\n#]*?)"
    rb"(?P<rest>)[ \t\r]*(?:#[^\n]*)?$"
)
_REPOSITORY = re.compile(
    rb"(?m)^(?P<lead>[ \t]*(?:-[ \t]+)?)(?P<quote>)"
    rb"(?P<spec>(?:-e[ \t]+|--editable[ =])?(?:git\+\S*?|https?://\S*?/archive/\S*?|https://github\.com/\S*?))"
    rb"/(?P<name>[\w.\-]+?)(?:\.git)?(?P<rest>(?:[@#]\S*)?)[ \t\r]*$"
)
_WHEEL = re.compile(
    rb"(?m)^(?P<lead>[ \t]*(?:-[ \t]+)?)(?P<quote>)(?P<spec>https?://\S*/)(?P<name>[A-Za-z][\w.]*)"
    rb"(?P<rest>-\d\S*\.whl(?:#\S*)?)[ \t\r]*$"
)
_SECTION = re.compile(rb"(?m)^[ \t]*\[+[ \t]*([^\]\[\n\"',]+(?:\"[^\"\n]*\"[^\]\n]*)?)\]+[ \t\r]*(?:#.*)?$")
_LIST = re.compile(rb"(?m)^[ \t]*[\"']?([\w.\-]+)[\"']?[ \t]*=[ \t]*\[")
_OPTIONAL = re.compile(r"optional-dependencies|dependency-groups|extras|\.group\.|dev-packages|dev-dependencies")
_TABLES = re.compile(r"\Apackages\Z|(?:\A|\.)dependencies\Z")
_PIP = re.compile(rb"(?m)^([ \t]*)-[ \t]+pip:[ \t\r]*$")


@dataclass(frozen=True)
class Requirement:
    """One required package. `start` to `end` is its name and version, without marker, options and comment.

    `form` is `line`, `item` (of a YAML list), `string` (in a TOML list), `entry` (`name = "version"`) or `repository`.
    """

    name: str
    spec: str
    rest: str
    start: int
    end: int
    form: str
    lead: str = ""
    quote: str = ""
    written: str = ""

    @property
    def has_platform(self) -> bool:
        """Whether a marker says already which machines it is for."""
        return any(word in self.rest + self.spec for word in ("platform", "os_name", "markers"))

    @property
    def is_plain(self) -> bool:
        """Whether a marker may be put behind it: nothing but a comment follows, and the form takes markers."""
        rest = self.rest.strip().removeprefix(self.quote).strip() if self.quote else self.rest.strip()
        return self.form in ("line", "item", "string") and (not rest or rest.startswith("#"))

    def with_marker(self, marker: str) -> str:
        """The requirement, for machines where `marker` (written with double quotes) holds."""
        return f"{self.written}; {self._quoted(marker)}"

    def twice(self, marker: str, other: str, other_marker: str) -> str:
        """The requirement where `marker` holds, and beside it `other` where `other_marker` holds."""
        first, second = self.with_marker(marker), f"{other}; {self._quoted(other_marker)}"
        if self.form == "string":
            between = ",\n" + self.lead if self.lead.strip(" \t") == "" and self.lead else ", "
            return f"{first}{self.quote}{between}{self.quote}{second}"
        return f"{first}{self.quote}\n{self.lead}{self.quote}{second}"

    def _quoted(self, marker: str) -> str:
        return marker.replace('"', "'") if self.quote == '"' else marker


def is_variant(file: TextFile) -> bool:
    """Whether the file's name says that it is meant for machines with CUDA."""
    return bool(_VARIANT.search(file.document.path.name))


def requirements(file: TextFile) -> Iterator[Requirement]:
    """The requirements of a file, those of optional groups left out."""
    name = file.document.path.name
    if name.endswith((".toml",)) or name == "Pipfile":
        yield from _of_tables(file.data)
    elif name == "setup.cfg":
        yield from _of_setup_cfg(file.data)
    elif name.endswith((".yml", ".yaml")):
        yield from _of_environment(file.data)
    else:
        yield from _found(file.data, _LINE, "line", "shell")
        yield from _found(file.data, _REPOSITORY, "repository", "shell")
        yield from _found(file.data, _WHEEL, "repository", "shell")


def _found(data: bytes, pattern: re.Pattern[bytes], form: str, style: str) -> Iterator[Requirement]:
    for match in hits(data, pattern, style):
        start = match.start("spec") if form == "repository" else match.start("name")
        end = match.end("rest") if form == "repository" else match.end("spec")
        yield Requirement(
            re.sub(r"[-_.]+", "-", match.group("name").decode().lower()),
            match.group("spec").decode("utf-8", "replace").replace(" ", ""),
            match.group("rest").decode("utf-8", "replace"),
            start,
            end,
            form,
            match.group("lead").decode(),
            match.group("quote").decode(),
            data[start:end].decode("utf-8", "replace"),
        )


class _Headings:
    """Finds the last heading before an offset."""

    def __init__(self, pattern: re.Pattern[bytes], data: bytes) -> None:
        self._found = [(m.start(), m.group(1).decode("utf-8", "replace")) for m in pattern.finditer(data)]
        self._starts = [start for start, _ in self._found]

    def before(self, offset: int) -> str:
        """The text of the heading, or nothing."""
        index = bisect_right(self._starts, offset) - 1
        return self._found[index][1] if index >= 0 else ""


def _of_tables(data: bytes) -> Iterator[Requirement]:
    sections, lists = _Headings(_SECTION, data), _Headings(_LIST, data)
    for requirement in _found(data, _STRING, "string", "toml"):
        key = lists.before(requirement.start)
        if key in ("dependencies", "requires") and not _OPTIONAL.search(sections.before(requirement.start)):
            yield requirement
    for requirement in _found(data, _ENTRY, "entry", "toml"):
        section = sections.before(requirement.start)
        if _TABLES.search(section) and not _OPTIONAL.search(section):
            yield requirement


def _of_setup_cfg(data: bytes) -> Iterator[Requirement]:
    block = re.search(rb"(?m)^(?:install_requires|setup_requires)[ \t]*=[^\n]*\n(?:[ \t]+[^\n]*\n?|[ \t]*\r?\n)*", data)
    for requirement in _found(data, _LINE, "line", "ini"):
        if block is not None and block.start() < requirement.start < block.end() and requirement.lead:
            yield requirement


def _of_environment(data: bytes) -> Iterator[Requirement]:
    pip = _PIP.search(data)
    if pip is None:
        return
    for form, pattern in (("item", _ITEM), ("repository", _REPOSITORY), ("repository", _WHEEL)):
        for requirement in _found(data, pattern, form, "yaml"):
            if requirement.start > pip.end() and len(requirement.lead.expandtabs()) - 2 > len(pip.group(1)):
                yield requirement
