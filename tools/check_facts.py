"""Check the doctor's facts: shape, sources, dates, pairings, and that each pattern matches its sample in linear time.

    python tools/check_facts.py

Prints what does not hold and exits with 1 if anything does not.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from datetime import date

from anydevice.doctor.explain.finding import matches
from anydevice.doctor.explain.lines import join
from anydevice.doctor.facts import drivers, processors, releases
from anydevice.doctor.facts.files import NAMES, read
from anydevice.doctor.facts.signatures import Pattern, Signature, signatures
from anydevice.doctor.facts.versions import number

_HOSTILE = 100_000  # characters of each text that patterns are timed on
_SECONDS = 0.5  # for one of them; a pattern that backtracks over the text takes minutes
_VARIANT = re.compile(r"cpu(\+mps)?|cu\d{2,3}|rocm\d+\.\d+(\.\d+)?|xpu")


def main() -> int:
    """Check all facts."""
    problems = [*_dates(), *_releases(), *_drivers(), *_architectures(), *_signatures()]
    for problem in problems:
        print(problem)
    print(
        f"{len(releases.releases())} releases, {len(drivers.toolkits())} toolkits, {len(processors.builds())} builds, ",
        end="",
    )
    print(f"{len(signatures())} signatures: {len(problems) or 'no'} problems")
    return 1 if problems else 0


def _dates() -> Iterator[str]:
    days = {name: read(name)["meta"]["collected"] for name in NAMES}
    for name, day in days.items():
        if date.fromisoformat(day) > date.today():
            yield f"{name}: collected on {day}, which is to come"
    if len(set(days.values())) != 1:
        yield f"the files were collected on different days: {days}"


def _releases() -> Iterator[str]:
    seen: set[tuple[int, ...]] = set()
    for one in releases.releases():
        if not one.sources:
            yield f"torch {one.version}: no source"
        if one.date is not None:
            date.fromisoformat(one.date)
        variants = [*(one.index_variants or ()), *(wheel.variant for wheel in one.wheels.values() if wheel)]
        yield from (f"torch {one.version}: variant '{v}' is none" for v in variants if not _VARIANT.fullmatch(v))
        vision = number(one.torchvision)
        if vision in seen:
            yield f"torch {one.version}: torchvision {one.torchvision} is already another release's"
        seen.add(vision)
        for wheel in filter(None, one.wheels.values()):
            cuda = wheel.variant.startswith("cu")
            if cuda and wheel.megabytes is not None and wheel.megabytes < 300 and number(one.version) >= (1, 5):
                yield f"torch {one.version}: the {wheel.variant} wheel for {wheel.platform} has only {wheel.megabytes} MB"
    current = [one for one in releases.releases() if not one.lts]
    if [number(one.torchvision) for one in current] != sorted(number(one.torchvision) for one in current):
        yield "the torchvision releases are not in the order of the torch releases"


def _drivers() -> Iterator[str]:
    for toolkit in drivers.toolkits():
        if not toolkit.source:
            yield f"CUDA {toolkit.cuda}: no source"
        for version in filter(None, (toolkit.linux, toolkit.windows)):
            number(version)
    for system in ("linux", "windows"):
        thresholds = [number(one) for one in drivers.uv_thresholds(system).values()]
        if thresholds != sorted(thresholds, reverse=True):
            yield f"uv's thresholds on {system} do not fall with the CUDA version"


def _architectures() -> Iterator[str]:
    known = {number(one.version)[:2] for one in releases.releases()}
    for build in processors.builds():
        name = f"torch {build.torch} {build.variant} {build.platform}"
        if number(build.torch)[:2] not in known:
            yield f"{name}: no such release"
        if build.platform not in (*releases.PLATFORMS, "*"):
            yield f"{name}: no such platform"
        if (build.sm is None and not build.note) or (build.sm is not None and not build.source):
            yield f"{name}: neither source nor a note on why it is unknown"


def _signatures() -> Iterator[str]:
    ids = {one.id for one in signatures()}
    if len(ids) != len(signatures()):
        yield "an id is used twice"
    for one in signatures():
        if not (one.sources and one.cause and one.mend and one.avoid):
            yield f"{one.id}: no source, cause, mend or what to avoid"
        yield from (f"{one.id}: gives way to '{other}', which is not known" for other in one.gives_way_to - ids)
        yield from (
            f"{one.id} and {other.id} give way to each other"
            for other in signatures()
            if one.id < other.id and one.id in other.gives_way_to and other.id in one.gives_way_to
        )
        sample = join(one.sample).text
        if not any(all(word in sample for word in p.words) and p.regex.search(sample) for p in one.patterns):
            yield f"{one.id}: no pattern matches the sample"
        for pattern in one.patterns:
            yield from _pattern(one, pattern, sample)


def _pattern(one: Signature, pattern: Pattern, sample: str) -> Iterator[str]:
    if not pattern.words or any(" " in word for word in pattern.words):
        yield f"{one.id}: literals must be words: {pattern.words}"
        return
    words = " ".join(pattern.words)
    for text in (
        words + " ",
        sample[:-1] + " ",
        words + "a" * 400,
        words + "1." * 400,
        words + " ' " * 200,
        words + "_Z2at" * 80,
    ):
        hostile = (text * (_HOSTILE // len(text) + 1))[:_HOSTILE]
        began = time.perf_counter()
        for _ in matches(pattern, hostile):
            pass
        took = time.perf_counter() - began
        if took > _SECONDS:
            yield f"{one.id}: {took:.1f} s on {_HOSTILE} characters of '{text[:40]}': {pattern.text[:60]}"


if __name__ == "__main__":
    sys.exit(main())
