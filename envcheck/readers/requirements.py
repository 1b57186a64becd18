"""requirements*.txt to packages: pins, ranges, index options; other files are named, not followed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Optional

import msgspec

from envcheck.model.fact import known, not_told
from envcheck.model.recipe import Recipe, Step
from envcheck.model.snapshot import Origin as SnapshotOrigin
from envcheck.model.snapshot import Snapshot
from envcheck.model.stack import Package, Python, Stack
from envcheck.readers.installs import merge_packages
from envcheck.readers.requirement_text import Origin, read_requirement, variant_of

MAX_LINES = 50_000
MAX_DEPTH = 5
OpenFile = Callable[[str], Optional[str]]  # a name relative to the file -> its text, None where it can't be read

_OPTION = re.compile(
    r"(--index-url|-i|--extra-index-url|--find-links|-f|--requirement|-r|--constraint|-c|--pre|--no-index)(?:\s+|=|$)(\S*)"
)
_LINE = re.compile(r"[A-Za-z0-9][\w.\-]*\s*(\[[^\]]*\])?\s*([=<>!~]=?|===|@|;|$|#|\\)")


class Lines(msgspec.Struct, frozen=True):
    """What the lines of a requirements file say."""

    packages: tuple[Package, ...]
    index_url: str = ""
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


def recognises(text: str, name: str) -> bool:
    """By name (requirements*.txt, constraints*.txt, *.in), or by requirements all along with a range or an index."""
    if re.search(
        r"(?:^|/)[\w.-]*(?:requirements|constraints)[\w.-]*\.(?:txt|in)$|(?:^|/)requirements/[\w.-]+\.(?:txt|in)$", name
    ):
        return True
    lines = [line.split(" #")[0].strip() for line in text[:50000].splitlines()]
    lines = [line for line in lines if line and not line.startswith(("#", "--hash"))]
    good = sum(bool(_LINE.match(line) or _OPTION.match(line)) for line in lines)
    # Pins alone are what `pip freeze` prints of an environment that exists: that is a report, not a wish.
    wished = sum(
        bool(_OPTION.match(line) or re.match(r"[A-Za-z0-9][\w.\-\[\], ]*(>=|~=|<|>|!=)", line)) for line in lines
    )
    return bool(lines) and good >= 0.9 * len(lines) and wished > 0


def read_requirements(text: str, *, name: str, python: str = "", open_file: Optional[OpenFile] = None) -> Snapshot:
    """The snapshot of a requirements file and, through `open_file`, of those that it names."""
    lines = read_lines(logical_lines(text), name, python, open_file=open_file)
    packages = merge_packages(lines.packages)
    step = Step(
        "pip",
        lines.names,
        index_url=lines.index_url,
        extra_index_urls=lines.extra_index_urls,
        find_links=lines.find_links,
        files=lines.files,
        source=f"{name}:1",
        sources=lines.sources,
    )
    files = tuple(dict.fromkeys([name, *(source.rpartition(":")[0] for source in lines.sources)]))
    return Snapshot(
        origin=SnapshotOrigin("requirements", name, ("requirements",)),
        stack=Stack(
            python=known(Python(python), "--python") if python else not_told("Python"),
            packages=known(packages, name) if packages else not_told("installed packages"),
            complete=known(False, name),
        ),
        remarks=lines.remarks,
        recipe=Recipe(files=files, steps=(step,)),
    )


def logical_lines(text: str) -> list[tuple[int, str]]:
    """(line number, text) with backslash continuations joined, as pip does."""
    found: list[tuple[int, str]] = []
    pending = ""
    start = 0
    for number, line in enumerate(text.lstrip("\ufeff").splitlines()[:MAX_LINES], 1):
        start = start or number
        if line.rstrip().endswith("\\") and not line.lstrip().startswith("#"):
            pending += line.rstrip()[:-1] + " "
            continue
        found.append((start, pending + line))
        pending, start = "", 0
    return found


def read_lines(
    lines: Iterable[tuple[int, str]], name: str, python: str, *, open_file: Optional[OpenFile] = None, depth: int = 0
) -> Lines:
    """Read logical lines; options may come after the requirements that they concern, so those are read last."""
    index, extras, links, files, remarks = "", [], [], [], []
    wanted: list[tuple[int, str]] = []
    nested: list[Lines] = []
    for number, raw in lines:
        line = re.sub(r"(^|\s)#.*$", "", raw).strip()
        if not line:
            continue
        match = _OPTION.match(line)
        if match:
            option, value = match.group(1), match.group(2)
            if option in ("--index-url", "-i"):
                index = value
            elif option == "--extra-index-url":
                extras.append(value)
            elif option in ("--find-links", "-f"):
                links.append(value)
            elif option in ("--requirement", "-r") and value:
                files.append(value)
                inner = open_file(value) if open_file and depth < MAX_DEPTH else None
                if inner is None:
                    remarks.append(f"{name}:{number}: {value} was not read")
                else:
                    place = f"{name.rpartition('/')[0]}/{value}" if "/" in name else value
                    nested.append(read_lines(logical_lines(inner), place, python, open_file=open_file, depth=depth + 1))
            continue
        if line.startswith(("-e", "--editable")):
            continue
        wanted.append((number, re.sub(r"\s--(?:hash|config-settings|global-option)[=\s].*$", "", line).strip()))
    for inner_lines in nested:
        index = index or inner_lines.index_url
        extras += inner_lines.extra_index_urls
    variants = [v for v in (variant_of(url) for url in (index, *extras, *links) if url) if v]
    channel = next((url for url in (index, *extras, *links) if url and variant_of(url)), index)
    packages: list[Package] = [package for inner_lines in nested for package in inner_lines.packages]
    names: list[str] = [text for inner_lines in nested for text in inner_lines.names]
    sources: list[str] = [text for inner_lines in nested for text in inner_lines.sources]
    for number, text in wanted:
        source = f"{name}:{number}"
        package = read_requirement(text, Origin("pip", channel, variants[0] if variants else None, python, source))
        if package is not None:
            packages.append(package)
            names.append(text)
            sources.append(source)
        elif not re.match(r"[\w.\-]+\s*[=<>!~;\[ ]", text):
            remarks.append(f"{source}: not read: {text[:80]}")
    return Lines(
        tuple(packages), index, tuple(extras), tuple(links), tuple(files),
        (*remarks, *(remark for inner_lines in nested for remark in inner_lines.remarks)), tuple(names), tuple(sources),
    )  # fmt: skip
