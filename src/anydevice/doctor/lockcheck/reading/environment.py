"""conda's environment.yml: match specs, and the pip section below them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement

from anydevice.doctor.lockcheck.listing import Entry, Index, Listing, canonical
from anydevice.doctor.lockcheck.reading.requirements import parse
from anydevice.doctor.lockcheck.reading.text import Unreadable, text_of

_LIMIT = 1 << 20  # ruamel.yaml reads about a megabyte in ten seconds, and no list by hand is longer
_SPEC = re.compile(
    r"(?:(?P<channel>[\w.\-/]+)::)?(?P<name>[\w.\-]+)\s*(?:\[[^\]]*\])?\s*"
    r"(?P<version>(?:[=!<>~]=?=?\s*)?[\d*][\w.*+!<>=,|~]*?|(?:[!<>~]=?|==)[^=\s][^\s]*?)?(?:[=\s](?P<build>[\w.*]+))?"
)
_TORCH = {"pytorch": "torch", "pytorch-cpu": "torch", "pytorch-gpu": "torch"}


def read(path: Path) -> Listing:
    """The file as a listing."""
    data = _load(path)
    dependencies = data.get("dependencies")
    if not isinstance(dependencies, list):
        raise Unreadable(f"cannot read '{path}': no environment.yml, it has no list of dependencies")
    entries: list[Entry] = []
    indexes: list[Index] = []
    bad: list[tuple[Path, int, str]] = []
    for place, item in enumerate(dependencies):
        if isinstance(item, str):
            entry = _conda(item, path, _line(dependencies, place))
            if entry is None:
                bad.append((path, _line(dependencies, place), item))
            else:
                entries.append(entry)
        elif isinstance(item, dict) and isinstance(item.get("pip"), list):
            _pip(item["pip"], path, entries, indexes, bad)
    python = next((entry for entry in entries if entry.conda and entry.name == "python"), None)
    return Listing(
        path, "conda", tuple(entries), tuple(indexes), python=python.specifier or None if python else None,
        python_line=python.line if python else 1, bad_lines=tuple(bad),
        notes={"channels": " ".join(str(c) for c in data.get("channels") or () if isinstance(c, str))},
    )  # fmt: skip


def match_spec(text: str) -> tuple[str, str, str] | None:
    """Name, specifier in pip's spelling and build of `pytorch=2.5.1=py3.11_cuda12.4*`; None where it is none."""
    match = _SPEC.fullmatch(text.strip()) if len(text) < 500 else None
    if match is None:
        return None
    version, build = (match["version"] or "").replace(" ", ""), match["build"] or ""
    if (version and version[0] in "!<>~") or version.startswith("=="):
        specifier = version.partition("|")[0] if "|" not in version else ""
    else:
        number = version.lstrip("=").partition("|")[0] if "|" not in version else ""
        # conda's `=2.5` is fuzzy, `2.5.1` beside a build or alone is exact as written.
        fuzzy = version.startswith("=") and not build and not number.endswith("*")
        specifier = "" if number in ("", "*") else f"=={number}{'.*' if fuzzy else ''}"
    return match["name"].lower(), specifier, build


def _load(path: Path) -> dict[str, Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    text = text_of(path, _LIMIT)
    try:
        data = YAML(typ="rt", pure=True).load(text)
    except (YAMLError, RecursionError, ValueError, AttributeError, TypeError, KeyError, AssertionError) as error:
        what = "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())[:120]
        raise Unreadable(f"cannot read '{path}': no valid YAML: {what}") from None
    if not isinstance(data, dict):
        raise Unreadable(f"cannot read '{path}': no environment.yml, it is no mapping")
    return data


def _line(sequence: Any, place: int) -> int:
    try:
        line: int = sequence.lc.item(place)[0] + 1
    except (AttributeError, KeyError, IndexError, TypeError):
        return 1
    return line


def _conda(item: str, path: Path, line: int) -> Entry | None:
    spec = match_spec(item.partition("#")[0])
    if spec is None:
        return None
    name, specifier, build = spec
    build = build or {"pytorch-cpu": "cpu", "pytorch-gpu": "cuda"}.get(name, "")
    return Entry(canonical(_TORCH.get(name, name)), path, line, specifier=specifier, conda=True, build=build)


def _pip(
    requirements: Any, path: Path, entries: list[Entry], indexes: list[Index], bad: list[tuple[Path, int, str]]
) -> None:
    for place, item in enumerate(requirements):
        line = _line(requirements, place)
        if not isinstance(item, str):
            continue
        option = re.fullmatch(r"(-i|--index-url|--extra-index-url|-f|--find-links)[ =]\s*(\S+)", item.strip())
        if option is not None:
            indexes.append(Index(option[2], option[1] not in ("-i", "--index-url"), path, line))
        elif not item.startswith("-"):
            try:
                entries.append(parse(item, path, line))
            except (InvalidRequirement, RecursionError):
                bad.append((path, line, item))
