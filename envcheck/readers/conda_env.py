"""Conda's environment.yml and conda-lock.yml, and its match specs ('pytorch=2.1=*cuda12.1*'), to packages."""

from __future__ import annotations

import re
from typing import Any, Optional

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from envcheck import versions
from envcheck.model.fact import Fact, known, not_told
from envcheck.model.recipe import Recipe, Step
from envcheck.model.snapshot import Origin as SnapshotOrigin
from envcheck.model.snapshot import Snapshot
from envcheck.model.stack import Package, Python, Stack
from envcheck.readers.installs import merge_packages
from envcheck.readers.requirement_text import Origin, from_specifier
from envcheck.readers.requirements import read_lines
from envcheck.readers.yaml_lines import Node, load_all, mapping, sequence

# Names that differ between conda and the wheel of the same thing.
WHEEL_NAMES = {"pytorch": "torch", "pytorch-gpu": "torch", "pytorch-cpu": "torch", "tensorflow-gpu": "tensorflow"}
_SPEC = re.compile(r"(?:(?P<channel>[\w.\-/:]+)::)?(?P<name>[A-Za-z0-9_][\w.\-]*)\s*(?P<rest>.*)")
_BUILD_CUDA = re.compile(r"cuda(\d+\.?\d*)")


def recognises(text: str, name: str) -> bool:
    """environment.yml by its name and 'dependencies:'; conda-lock by its 'package:' and 'metadata:'."""
    if re.search(r"(?m)^metadata:", text) and re.search(r"(?m)^package:", text) and "conda" in text:
        return True
    listed = re.search(r"(?m)^dependencies:\s*(#.*)?$", text) is not None
    return listed and (re.search(r"\.ya?ml$", name) is not None or re.search(r"(?m)^channels:", text) is not None)


def read_match_spec(text: str, channel: str, source: str) -> Optional[Package]:
    """'conda-forge::pytorch=2.1.*=*cuda12*' to a package; None for what is none (paths, URLs)."""
    match = _SPEC.fullmatch(text.strip().strip("\"'"))
    if not match or "/" in match.group("name"):
        return None
    name, rest = match.group("name").lower(), match.group("rest").strip()
    rest, _, _ = rest.partition("[")
    build = ""
    exact = re.fullmatch(r"(==?)\s*([\w.+!*]+)(?:\s*=\s*(\S+))?", rest)
    spaced = re.fullmatch(r"([\w.+!*]+)(?:\s+(\S+))?", rest)
    version: Optional[str] = None
    pinned = False
    requirement = text.strip()
    if exact or spaced:
        found = exact or spaced
        assert found is not None
        number, build = (found.group(2), found.group(3) or "") if exact else (found.group(1), found.group(2) or "")
        if "*" not in number and versions.find(number) is not None:
            version = number
            pinned = bool(spaced) or found.group(1) == "==" or number.count(".") >= 2
    package = WHEEL_NAMES.get(name, name.replace("_", "-"))
    cuda = _BUILD_CUDA.search(build)
    variant = "cpu" if re.search(r"(^|_)cpu", build) or name.endswith("-cpu") else None
    told = cuda.group(1) if cuda else None
    if told and "." not in told and len(told) == 3:  # cuda121 is 12.1, cuda11 stays 11
        told = f"{told[:2]}.{told[2]}"
    return Package(
        package,
        version=version if pinned else None,
        variant=variant,
        cuda=told,
        installer="conda",
        channel=match.group("channel") or channel,
        build=build,
        requirement="" if pinned else _pep440(package, rest, requirement),
        pinned=pinned,
        source=source,
    )


def _pep440(name: str, rest: str, text: str) -> str:
    """A conda range in PEP 440's words, so that the same look-up serves both; the text as it is where it has none."""
    fuzzy = re.fullmatch(r"=\s*([\d.]+?)(?:\.\*)?(?:\s*=.*)?", rest) or re.fullmatch(r"([\d.]+?)\.\*(?:\s+.*)?", rest)
    if fuzzy:
        return f"{name}=={fuzzy.group(1)}.*"
    try:
        return f"{name}{SpecifierSet(rest.split(' ')[0])}"
    except InvalidSpecifier:
        return name if not rest else text


def read_conda(text: str, *, name: str, python: str = "") -> Snapshot:
    """The snapshot of an environment.yml or a conda-lock.yml. Raises YamlError."""
    document = mapping(next(iter(load_all(text)), None))
    packages = _locked(document, name) if "package" in document else _wished(document, name)
    interpreter = next((p for p in packages if p.name == "python"), None)
    version = interpreter.version if interpreter else None
    if interpreter and version is None:
        match = re.search(r"==?\s*(3\.\d+)", interpreter.requirement)
        version = match.group(1) if match else None
    rest = [p for p in packages if p.name != "python"]
    found: Fact[Optional[Python]] = (
        known(Python(version, kind="conda"), interpreter.source) if interpreter and version else not_told("Python")
    )
    channels = tuple(str(c) for c in sequence(document.get("channels")))
    return Snapshot(
        origin=SnapshotOrigin("conda", name, ("conda",)),
        stack=Stack(
            python=found,
            packages=known(merge_packages(rest), name) if rest else not_told("installed packages"),
            complete=known("package" in document, name),
        ),
        recipe=Recipe(
            files=(name,), steps=(Step("conda", tuple(p.name for p in rest), channels=channels, source=f"{name}:1"),)
        ),
    )


def _wished(document: Node, name: str) -> list[Package]:
    channels = [str(c) for c in sequence(document.get("channels"))]
    channel = channels[0] if channels else ""
    found: list[Package] = []
    items = sequence(document.get("dependencies"))
    for item, line in zip(items, items.lines):
        if isinstance(item, Node):
            pip = sequence(item.get("pip"))
            lines = [(number, str(text)) for text, number in zip(pip, pip.lines)]
            found += read_lines(lines, name, "").packages
        else:
            package = read_match_spec(str(item), channel, f"{name}:{line}")
            found += [package] if package is not None else []
    return found


def _locked(document: Node, name: str) -> list[Package]:
    """conda-lock's list, one platform of it: linux-64 where there are several."""
    items = sequence(document.get("package"))
    rows = [(mapping(item), line) for item, line in zip(items, items.lines)]
    platforms = {str(row.get("platform", "")) for row, _ in rows}
    wanted = "linux-64" if "linux-64" in platforms else next(iter(sorted(platforms)), "")
    found = [_locked_package(row, f"{name}:{line}") for row, line in rows if str(row.get("platform", "")) == wanted]
    return [package for package in found if package is not None]


def _locked_package(row: Node, source: str) -> Optional[Package]:
    name, version = str(row.get("name", "")), str(row.get("version", ""))
    if not name or versions.find(version) is None:
        return None
    if row.get("manager") == "pip":
        return from_specifier(name, SpecifierSet(f"=={version}"), Origin("pip", source=source))
    url: Any = row.get("url", "")
    build = str(url).rpartition("/")[2].partition(f"-{version}-")[2]
    return read_match_spec(f"{name} {version} {build.partition('.')[0] if 'cuda' not in build else build}", "", source)
