"""Runs the rules over one document. Files without an anchor outside comments and docstrings are never parsed."""

from __future__ import annotations

import fnmatch
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tree_sitter import Node

from anydevice.finding import Finding
from anydevice.rules.facts import Facts
from anydevice.rules.registry import python_rules, text_rules
from anydevice.rules.rule import PythonRule, Rule, TextRule
from anydevice.rules.site import Context, Site
from anydevice.rules.target import Target
from anydevice.rules.textfile import NotebookCommands, TextFile
from anydevice.source.document import Document, PythonDocument
from anydevice.source.module import Module
from anydevice.source.notebook import NotebookDocument
from anydevice.source.syntax import is_docstring
from anydevice.source.words import all_words, is_word, words

# What cannot hold code: comments and triple-quoted strings. They are skipped before anything is parsed.
_PROSE = re.compile(
    rb"""(?s)\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|#[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'"""
)


@dataclass(frozen=True)
class Index:
    """Some rules, by the words at which they are asked. `needs` are what a file must have for a rule to be asked."""

    in_code: Mapping[str, tuple[PythonRule, ...]]
    in_text: Mapping[str, tuple[PythonRule, ...]]
    needs: Mapping[str, Callable[[bytes], object]]


@lru_cache(maxsize=8)
def index_of(rules: tuple[PythonRule, ...]) -> Index:
    """Index `rules` by their anchors."""
    in_code: dict[str, list[PythonRule]] = {}
    in_text: dict[str, list[PythonRule]] = {}
    for rule in rules:
        for word in rule.anchors:
            in_code.setdefault(word, []).append(rule)
        for word in rule.text_anchors:
            in_text.setdefault(word, []).append(rule)
    return Index(
        {word: tuple(found) for word, found in in_code.items()},
        {word: tuple(found) for word, found in in_text.items()},
        {need: _finder(need) for rule in rules for choice in _choices(rule) for need in choice},
    )


def _choices(rule: PythonRule) -> tuple[tuple[str, ...], ...]:
    """What the rule needs, each need as a choice."""
    return tuple((need,) if isinstance(need, str) else need for need in rule.needs)


def _finder(need: str) -> Callable[[bytes], object]:
    """A search for `need`; plain text, or a choice of plain texts, is found many times faster without an expression."""
    texts = [re.sub(r"\\(\W)", r"\1", part) for part in need.split("|")]
    if "|".join(re.escape(text) for text in texts) == need:
        plain = tuple(text.encode() for text in texts)
        return lambda data: any(text in data for text in plain)
    return re.compile(need.encode()).search


@lru_cache(maxsize=8)
def _rules_with_words(
    rules: tuple[PythonRule, ...],
) -> tuple[tuple[PythonRule, frozenset[bytes], frozenset[bytes]], ...]:
    """Each rule with those of its anchors that are single words, and those that are not (`flash-attn`)."""
    found = []
    for rule in rules:
        anchors = frozenset(word.encode() for word in (*rule.anchors, *rule.text_anchors))
        single = frozenset(word for word in anchors if is_word(word))
        found.append((rule, single, anchors - single))
    return tuple(found)


def analyse(
    document: Document,
    rules: tuple[Rule, ...],
    target: Target,
    facts: Facts,
    failures: list[str] | None = None,
) -> list[Finding]:
    """The findings of one document, in source order.

    A rule that fails is a bug of ours. With `failures` it is noted there, one line each, and the others go on; without,
    its exception is raised.
    """
    if isinstance(document, PythonDocument | NotebookDocument):
        findings = list(_analyse_python(document, python_rules(rules), target, facts, failures))
        if isinstance(document, NotebookDocument):
            for kind in ("shell", "written"):
                findings += _analyse_commands(NotebookCommands(document, kind), rules)
    else:
        file = TextFile(document)
        findings = [
            finding
            for rule in text_rules(rules)
            if _is_for(rule, document.path) and any(word.encode() in document.data for word in rule.words)
            for finding in rule.check(file)
        ]
    return sorted(findings, key=lambda finding: (finding.span, finding.code))


def _is_for(rule: TextRule, path: Path) -> bool:
    """Whether the rule is about files of this name (in a folder of this name)."""
    plain, foldered = _names(rule.files)
    return plain.match(path.name) is not None or foldered.match(f"{path.parent.name}/{path.name}") is not None


@lru_cache(maxsize=64)
def _names(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The patterns without and with a folder, each compiled into one expression."""
    parts = [[p for p in patterns if ("/" in p) is foldered] for foldered in (False, True)]
    plain, foldered = ("|".join(map(fnmatch.translate, some)) or r"(?!)" for some in parts)
    return re.compile(plain), re.compile(foldered)


def _analyse_commands(commands: NotebookCommands, rules: tuple[Rule, ...]) -> Iterator[Finding]:
    """The findings in the lines of a notebook that are not Python."""
    data = commands.data
    for rule in text_rules(rules):
        if rule.magics == commands.kind and any(word.encode() in data for word in rule.words):
            yield from rule.check(commands)


def _analyse_python(
    document: Document, rules: tuple[PythonRule, ...], target: Target, facts: Facts, failures: list[str] | None
) -> Iterator[Finding]:
    data, index = document.data, index_of(rules)
    active, asked = _active(data, rules, index)
    hits = sorted(_outside_prose(data, [hit for word in asked for hit in words(data, word)]))
    if not hits:
        return
    context = Context(Module(document), target, facts)
    seen: set[tuple[str, int, int]] = set()
    for site, rules_there in _sites(context, index, hits):
        for rule in rules_there:
            if rule not in active:
                continue
            for finding in _checked(rule, site, failures):
                key = (finding.code, finding.span.start, finding.span.end)
                if key not in seen:
                    seen.add(key)
                    yield finding


def _checked(rule: PythonRule, site: Site, failures: list[str] | None) -> Iterator[Finding]:
    try:
        yield from rule.check(site)
    except Exception as error:
        if failures is None:
            raise
        line = site.module.span(site.leaf).line
        failures.append(
            f"rule {rule.code} failed at {site.context.path}:{line} ({type(error).__name__}: {error}); "
            "please report this"
        )


def _active(data: bytes, rules: tuple[PythonRule, ...], index: Index) -> tuple[set[PythonRule], set[bytes]]:
    """The rules that may have something to say about a file, and those of their anchors that it has."""
    code = _without_docstrings(data)
    words_of_file = all_words(code)
    answers: dict[str, bool] = {}
    active: set[PythonRule] = set()
    asked: set[bytes] = set()

    def has(need: str) -> bool:
        if need not in answers:
            answers[need] = bool(index.needs[need](code))
        return answers[need]

    for rule, single, compounds in _rules_with_words(rules):
        present = single & words_of_file
        present |= {word for word in compounds if word in code}
        if present and all(any(has(need) for need in choice) for choice in _choices(rule)):
            active.add(rule)
            asked |= present
    return active, asked


def _without_docstrings(data: bytes) -> bytes:
    """`data` without what stands between pairs of triple quotes: a third of a documented file, at next to no cost.

    Where the quotes do not pair up, or two kinds are mixed, all of `data`; the exact look comes with the hits.
    """
    parts = data.split(b'"""')
    return data if len(parts) % 2 == 0 or b"'''" in data else b" ".join(parts[::2])


def _outside_prose(data: bytes, hits: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those of `hits` that stand neither in comments nor in triple-quoted strings."""
    if not hits or (b"#" not in data and b'"""' not in data and b"'''" not in data):
        return hits
    starts, ends = [], []
    for match in _PROSE.finditer(data):
        if match.group()[:1] == b"#" or match.group()[:3] in (b'"""', b"'''"):
            starts.append(match.start())
            ends.append(match.end())
    kept = []
    for hit in hits:
        position = bisect_right(starts, hit[0]) - 1
        if position < 0 or hit[0] >= ends[position]:
            kept.append(hit)
    return kept


def _sites(
    context: Context, index: Index, hits: Iterable[tuple[int, int]]
) -> Iterator[tuple[Site, tuple[PythonRule, ...]]]:
    module = context.module
    for start, end in hits:
        leaf = module.leaf(start, end)
        if leaf is None:
            continue
        word = module.data[start:end].decode()
        if leaf.type == "identifier":
            if word in index.in_code:
                yield Site(context, leaf, word), index.in_code[word]
        elif leaf.type in ("string_content", "string", "string_start", "string_end", "escape_sequence"):
            string = _string(leaf)
            if word in index.in_text and string is not None and not is_docstring(string):
                yield Site(context, string, word, in_string=True), index.in_text[word]
    yield from _alias_sites(context, index)


def _alias_sites(context: Context, index: Index) -> Iterator[tuple[Site, tuple[PythonRule, ...]]]:
    """Uses of names that an import made out of an anchor: `import torch.cuda as tc`, `from torch.cuda import Event`."""
    for binding in context.module.names.imports:
        parts = (binding.target or "").split(".")
        name = (binding.node.text or b"").decode()
        words = [part for part in parts if part in index.in_code and part != name]
        if not words or parts[0] not in ("torch", "nn", "apex", "nvidia", "decord", "cv2"):
            continue
        for node in context.module.names.references(name):
            for word in words:
                yield Site(context, node, word), index.in_code[word]


def _string(leaf: Node) -> Node | None:
    node: Node | None = leaf
    while node is not None and node.type != "string":
        node = node.parent
    return node
