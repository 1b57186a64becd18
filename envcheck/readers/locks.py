"""Lock files and pyproject.toml to packages: uv.lock, poetry.lock, pylock.toml, Pipfile.lock, [project] and tools."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any, Optional

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from envcheck import versions
from envcheck.model.fact import Fact, known, not_told
from envcheck.model.recipe import Recipe, Step
from envcheck.model.snapshot import Origin as SnapshotOrigin
from envcheck.model.snapshot import Snapshot
from envcheck.model.stack import Package, Python, Stack
from envcheck.readers.installs import merge_packages
from envcheck.readers.requirement_text import Origin, from_specifier, read_requirement, variant_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_BYTES = 64 << 20
LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock")


class LockError(ValueError):
    """The file isn't what its name or its beginning says."""


def recognises(text: str, name: str) -> bool:
    """By name, or by what each tool writes at the top."""
    last = name.rpartition("/")[2]
    if last in LOCKS or re.fullmatch(r"pylock(\.[\w-]+)?\.toml|pyproject\.toml", last):
        return True
    head = text[:4000]
    if re.search(r"(?m)^\[\[packages?\]\]\s*$", head) and re.search(
        r"(?m)^(lock-version|version|requires-python)", head
    ):
        return True
    if re.search(r"(?m)^\[(project|build-system|tool\.poetry)\]\s*$", head):
        return True
    return head.lstrip().startswith("{") and '"_meta"' in head and '"pipfile-spec"' in head


def read_lock(text: str, *, name: str, python: str = "") -> Snapshot:
    """The snapshot of a lock file or a pyproject.toml. Raises LockError."""
    if len(text) > MAX_BYTES:
        raise LockError("larger than any such file")
    try:
        if text.lstrip().startswith("{"):
            return _pipfile(json.loads(text), text, name, python)
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as fault:
        raise LockError(f"{type(fault).__name__}: {str(fault)[:120]}") from None
    if isinstance(document.get("packages"), list):
        return _snapshot("lock", name, _pylock(document, text, name), _python(document, python, name), whole=True)
    if isinstance(document.get("package"), list):
        return _snapshot("lock", name, _locked(document, text, name), _python(document, python, name), whole=True)
    return _pyproject(document, text, name, python)


def _snapshot(
    kind: str, name: str, packages: list[Package], python: Fact[Optional[Python]], *, whole: bool = False
) -> Snapshot:
    merged = merge_packages(packages)
    step = Step(
        kind,
        tuple(p.requirement or f"{p.name}=={p.version}" for p in merged),
        index_url=next((p.channel for p in merged if p.channel), ""),
        source=f"{name}:1",
        sources=tuple(p.source for p in merged),
    )
    return Snapshot(
        origin=SnapshotOrigin(kind, name, (kind,)),
        stack=Stack(
            python=python,
            packages=known(merged, name) if merged else not_told("installed packages"),
            complete=known(whole, name),
        ),
        recipe=Recipe(files=(name,), steps=(step,) if merged else ()),
    )


def _python(document: dict[str, Any], python: str, name: str) -> Fact[Optional[Python]]:
    return known(Python(python), "--python") if python else not_told("Python")


def _locked(document: dict[str, Any], text: str, name: str) -> list[Package]:
    """uv.lock, poetry.lock, pdm.lock: [[package]] with name, version and where from."""
    found = []
    for row, line in _rows(document.get("package"), text, "[[package]]"):
        version = str(row.get("version", ""))
        if not row.get("name") or versions.find(version) is None:
            continue
        where = row.get("source")
        url = ""
        if isinstance(where, dict):
            url = str(where.get("registry") or where.get("url") or "")
            if where.get("virtual") or where.get("editable") or where.get("directory"):
                continue  # the project itself
        found.append(_pin(str(row["name"]), version, url, f"{name}:{line}"))
    return [package for package in found if package is not None]


def _pylock(document: dict[str, Any], text: str, name: str) -> list[Package]:
    """PEP 751: [[packages]] with name, version, index and wheels."""
    found = []
    for row, line in _rows(document.get("packages"), text, "[[packages]]"):
        version = str(row.get("version", ""))
        if not row.get("name") or versions.find(version) is None:
            continue
        wheels = row.get("wheels")
        first = wheels[0] if isinstance(wheels, list) and wheels and isinstance(wheels[0], dict) else {}
        url = str(row.get("index") or "")
        url = url if variant_of(url) else str(first.get("url") or url).rpartition("/")[0]
        found.append(_pin(str(row["name"]), version, url, f"{name}:{line}"))
    return [package for package in found if package is not None]


def _pin(name: str, version: str, url: str, source: str) -> Optional[Package]:
    try:
        specifier = SpecifierSet(f"=={version}")
    except InvalidSpecifier:
        return None
    return from_specifier(name, specifier, Origin("pip", url, variant_of(url) if url else None, source=source))


def _rows(rows: Any, text: str, header: str) -> Iterator[tuple[dict[str, Any], int]]:
    """The tables of an array with the line of their name."""
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines, 1) if line.strip() == header]
    for index, row in enumerate(rows if isinstance(rows, list) else ()):
        if isinstance(row, dict):
            start = starts[index] if index < len(starts) else 1
            named = next((n for n in range(start, min(start + 6, len(lines))) if lines[n].startswith("name")), start)
            yield row, named + 1 if index < len(starts) and named >= start else start


def _pipfile(document: Any, text: str, name: str, python: str) -> Snapshot:
    if not isinstance(document, dict) or "_meta" not in document:
        raise LockError("no _meta: not a Pipfile.lock")
    meta = document["_meta"] if isinstance(document["_meta"], dict) else {}
    sources = {str(s.get("name")): str(s.get("url", "")) for s in meta.get("sources", ()) if isinstance(s, dict)}
    required = meta.get("requires") if isinstance(meta.get("requires"), dict) else {}
    asked = python or str(required.get("python_version", "") if isinstance(required, dict) else "")
    lines = text.splitlines()
    found = []
    for package, row in (document.get("default") or {}).items():
        if not isinstance(row, dict):
            continue
        line = next((n for n, content in enumerate(lines, 1) if content.strip().startswith(f'"{package}":')), 1)
        url = sources.get(str(row.get("index", "")), "")
        version = str(row.get("version", "")).lstrip("=")
        if versions.find(version) is not None:
            found.append(_pin(package, version, url, f"{name}:{line}"))
    where = "--python" if python else name
    fact: Fact[Optional[Python]] = known(Python(asked), where) if asked else not_told("Python")
    return _snapshot("lock", name, [p for p in found if p is not None], fact, whole=True)


def _pyproject(document: dict[str, Any], text: str, name: str, python: str) -> Snapshot:
    lines = text.splitlines()
    indexes = _uv_indexes(document)
    found: list[Package] = []
    for requirement in _project_requirements(document):
        line = next((n for n, content in enumerate(lines, 1) if requirement in content), 1)
        base = Origin("pip", python=python, source=f"{name}:{line}")
        package = read_requirement(requirement, base)
        if package is None:
            continue
        url = indexes.get(package.name, "")
        if url:
            variant = variant_of(url)
            package = read_requirement(requirement, Origin("uv", url, variant, python, base.source)) or package
        found.append(package)
    found += _poetry(document, lines, name)
    if not found and "project" not in document and "tool" not in document:
        raise LockError("neither a lock file nor a project")
    return _snapshot("requirements", name, found, _python(document, python, name))


def _project_requirements(document: dict[str, Any]) -> list[str]:
    project = document.get("project")
    found: list[Any] = []
    if isinstance(project, dict):
        found += project.get("dependencies") or []
        optional = project.get("optional-dependencies")
        if isinstance(optional, dict):
            found += [text for extra in optional.values() if isinstance(extra, list) for text in extra]
    groups = document.get("dependency-groups")
    if isinstance(groups, dict):
        found += [text for group in groups.values() if isinstance(group, list) for text in group]
    return [text for text in found if isinstance(text, str)]


def _uv_indexes(document: dict[str, Any]) -> dict[str, str]:
    """Package to index URL by [tool.uv.sources] and [[tool.uv.index]]."""
    tool = document.get("tool")
    uv = tool.get("uv") if isinstance(tool, dict) else None
    if not isinstance(uv, dict):
        return {}
    rows = uv.get("index")
    urls = {
        str(row.get("name")): str(row.get("url", ""))
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict)
    }
    found: dict[str, str] = {}
    sources = uv.get("sources")
    for package, source in sources.items() if isinstance(sources, dict) else ():
        choices = source if isinstance(source, list) else [source]
        linux = [c for c in choices if isinstance(c, dict) and "linux" in str(c.get("marker", "linux"))]
        name = next((str(c["index"]) for c in linux if c.get("index")), "")
        if name in urls:
            found[package.lower().replace("_", "-")] = urls[name]
    return found


def _poetry(document: dict[str, Any], lines: list[str], name: str) -> list[Package]:
    tool = document.get("tool")
    poetry = tool.get("poetry") if isinstance(tool, dict) else None
    if not isinstance(poetry, dict):
        return []
    sources = {
        str(row.get("name")): str(row.get("url", "")) for row in (poetry.get("source") or ()) if isinstance(row, dict)
    }
    tables = [poetry.get("dependencies")]
    groups = poetry.get("group")
    if isinstance(groups, dict):
        tables += [group.get("dependencies") for group in groups.values() if isinstance(group, dict)]
    found: list[Package] = []
    for table in tables:
        for package, wish in table.items() if isinstance(table, dict) else ():
            version = wish.get("version", "") if isinstance(wish, dict) else wish
            if package == "python" or not isinstance(version, str):
                continue
            url = sources.get(str(wish.get("source", "")), "") if isinstance(wish, dict) else ""
            line = next((n for n, text in enumerate(lines, 1) if re.match(rf"{re.escape(package)}\s*=", text)), 1)
            origin = Origin("poetry", url, variant_of(url) if url else None, source=f"{name}:{line}")
            specifier = poetry_specifier(version)
            if specifier is not None:
                found.append(from_specifier(package, specifier, origin))
    return found


def poetry_specifier(text: str) -> Optional[SpecifierSet]:
    """Poetry's '^2.1', '~2.1', '2.1.*' and '2.1.0' in PEP 440's words; None for what is none."""
    text = text.strip()
    if text in ("", "*"):
        return SpecifierSet()
    match = re.fullmatch(r"([\^~]?)(\d+(?:\.\d+)*)", text)
    try:
        if not match:
            return SpecifierSet(text.replace(" ", ""))
        operator, number = match.groups()
        parts = [int(part) for part in number.split(".")]
        if not operator:
            return SpecifierSet(f"=={number}")
        # '^' keeps the left-most number that isn't zero; '~' keeps the minor
        keep = (
            next((i for i, part in enumerate(parts) if part), len(parts) - 1)
            if operator == "^"
            else min(1, len(parts) - 1)
        )
        upper = [*parts[:keep], parts[keep] + 1]
        return SpecifierSet(f">={number},<{'.'.join(map(str, upper))}")
    except InvalidSpecifier:
        return None
