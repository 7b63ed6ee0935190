"""pyproject.toml: standard dependencies, extras and groups; uv's sources and indexes; poetry's spelling of all that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement

from anydevice.doctor.lockcheck.listing import Entry, Index, Listing, canonical, holds_on_linux
from anydevice.doctor.lockcheck.reading.requirements import parse
from anydevice.doctor.lockcheck.reading.toml import Finder, items, load, strings, table, text

_CLAUSE = re.compile(r"(\^|~=|~|[=!<>]=?=?)?\s*v?(\d[\w.*+!-]*|\*)")


def read(path: Path) -> Listing:
    """The file as a listing."""
    data, lines = load(path)
    find = Finder(lines)
    project, uv, poetry = table(data, "project"), table(data, "tool", "uv"), table(data, "tool", "poetry")
    entries, bad = _standard(data, project, uv, path, find)
    entries = [copy for entry in entries for copy in _sourced(entry, uv)]
    entries += _poetry(poetry, path, find)
    python = text(project.get("requires-python"))
    line = find.line("requires-python") if python else 1
    if python is None and (wish := text(table(poetry, "dependencies").get("python"))):
        python, line = poetry_specifier(wish), find.line("python", wish)
    indexes = _indexes(uv, path, find)
    return Listing(
        path, "pyproject", tuple(entries), tuple(indexes), python=python, python_line=line, bad_lines=tuple(bad),
        notes={"tool": "poetry" if table(poetry, "dependencies") else "uv"},
    )  # fmt: skip


def poetry_specifier(wish: str) -> str:
    """`^2.5` as `>=2.5,<3`, `~2.5.1` as `>=2.5.1,<2.6`, `2.5.*` as `==2.5.*`."""
    clauses = []
    for operator, number in _CLAUSE.findall(wish.partition("||")[0] if "||" not in wish else ""):
        if number == "*":
            continue
        parts = [int(part) for part in re.findall(r"\d+", number.partition("+")[0])][:3]
        if operator == "^":
            keep = next((place for place, part in enumerate(parts) if part), len(parts) - 1)
            clauses += [f">={number}", f"<{'.'.join(map(str, [*parts[:keep], parts[keep] + 1]))}"]
        elif operator == "~":
            keep = min(1, len(parts) - 1)
            clauses += [f">={number}", f"<{'.'.join(map(str, [*parts[:keep], parts[keep] + 1]))}"]
        else:
            clauses.append(f"{'==' if operator in ('', '=') else operator}{number}")
    return ",".join(clauses)


def _standard(
    data: dict[str, Any], project: dict[str, Any], uv: dict[str, Any], path: Path, find: Finder
) -> tuple[list[Entry], list[tuple[Path, int, str]]]:
    lists = {"": strings(project.get("dependencies"))}
    lists |= {f"extra {name}": strings(value) for name, value in table(project, "optional-dependencies").items()}
    lists |= {f"group {name}": strings(value) for name, value in table(data, "dependency-groups").items()}
    lists["group dev"] = [*lists.get("group dev", []), *strings(uv.get("dev-dependencies"))]
    entries, bad = [], []
    for group, requirements in lists.items():
        for requirement in requirements:
            line = find.line(requirement.replace("\\", "\\\\").partition('"')[0] or requirement)
            try:
                entries.append(parse(requirement, path, line, group=group))
            except (InvalidRequirement, RecursionError):
                bad.append((path, line, requirement))
    return entries, bad


def _sourced(entry: Entry, uv: dict[str, Any]) -> Iterator[Entry]:
    """The entry with the index that uv takes it from on Linux; twice where an extra decides."""
    named = table(uv, "sources")
    source = next((value for name, value in named.items() if canonical(name) == entry.name), None)
    choices = [source] if isinstance(source, dict) else items(source)
    if not choices:
        yield entry
        return
    urls = {text(index.get("name")): text(index.get("url")) for index in items(uv.get("index"))}
    fitting = [
        choice
        for choice in choices
        if entry.group in ("", f"extra {choice.get('extra', '')}", f"group {choice.get('group', '')}")
        or not {"extra", "group"} & choice.keys()
    ]
    on_linux = [choice for choice in fitting if holds_on_linux(text(choice.get("marker")))]
    if not on_linux:
        yield entry
    for choice in on_linux:
        label = next((f"{key} {choice[key]}" for key in ("extra", "group") if choice.get(key)), "")
        url = urls.get(text(choice.get("index")), text(choice.get("index"))) if "index" in choice else None
        yield replace(entry, index=url, url=text(choice.get("url")) or entry.url, group=entry.group or label)


def _indexes(uv: dict[str, Any], path: Path, find: Finder) -> Iterator[Index]:
    for index in items(uv.get("index")):
        url = text(index.get("url"))
        # An explicit index serves only what names it, and so misleads nothing else.
        if url and index.get("explicit") is not True:
            yield Index(url, index.get("default") is not True, path, find.line(url))
    for owner in (uv, table(uv, "pip")):
        if url := text(owner.get("index-url")):
            yield Index(url, False, path, find.line(url))
        for url in strings(owner.get("extra-index-url")):
            yield Index(url, True, path, find.line(url))


def _poetry(poetry: dict[str, Any], path: Path, find: Finder) -> Iterator[Entry]:
    urls = {text(source.get("name")): text(source.get("url")) for source in items(poetry.get("source"))}
    lists = {"": table(poetry, "dependencies")}
    lists |= {f"group {name}": table(group, "dependencies") for name, group in table(poetry, "group").items()}
    for group, wishes in lists.items():
        for name, wish in wishes.items():
            for choice in [wish] if isinstance(wish, (str, dict)) else items(wish):
                if name == "python":
                    continue
                described = choice if isinstance(choice, dict) else {"version": choice}
                version = text(described.get("version"))
                yield Entry(
                    canonical(name),
                    path,
                    find.line(name, version) if version else find.line(name),
                    specifier=poetry_specifier(version) if version else "",
                    url=text(described.get("url")),
                    index=urls.get(text(described.get("source"))),
                    marker=text(described.get("markers")),
                    group=group,
                )
