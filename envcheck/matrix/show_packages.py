"""Answers about packages: their builds, companions and pins."""

from __future__ import annotations

from collections.abc import Sequence

from envcheck.errors import UnknownName
from envcheck.matrix.answer import Answer, AnswerTable, facts, notes_of, sources_of, span, table
from envcheck.matrix.builds import normal
from envcheck.matrix.matrix import Matrix
from envcheck.matrix.rows import Build, Companion

COMPANIONS_SHOWN = ("torchvision", "torchaudio", "torchtext", "xformers", "vllm", "bitsandbytes", "triton")


def show_package(matrix: Matrix, package: str, version: str = "") -> Answer:
    """A release of a package ('torch 2.1', 'tensorflow 2.15'), or all its releases."""
    name = normal(package)
    if name not in matrix.packages():
        raise UnknownName("package", package, matrix.packages(), "envcheck matrix show packages")
    builds = matrix.builds_of(name, version)
    companions = matrix.companions_of(name, version)
    if not builds and not companions:
        known = matrix.versions_of(name)
        see = f"envcheck matrix show {name} (the newest are {', '.join(known[:4])})"
        raise UnknownName(f"release of {name}", version, known, see)
    if not version:
        return _all_releases(matrix, name, builds, companions)
    releases = list(dict.fromkeys(row.version for row in builds))
    tables = [_builds_table(builds)] if builds else []
    if companions:
        tables.append(_companions_table(name, companions))
    tables += _companions_of_framework(matrix, name, releases)
    newest = releases[0] if releases else ""
    pins = matrix.pins_of(name, newest) if len(releases) == 1 else ()
    if pins:
        rows = ((p.package, p.requirement, p.via if p.via != "direct" else "") for p in pins)
        tables.append(table(f"What the default wheel of {newest} pins on x86_64", ("package", "", "through"), rows))
    seen = [row for row in builds if row.witness]
    return Answer(
        topic=name,
        title=f"{name} {version}",
        facts=facts(
            runs_on=_code(builds),
            wheel=_first(builds, "wheel_tag"),
            glibc=f">= {_first(builds, 'glibc')}" if _first(builds, "glibc") else None,
            NumPy=_numpy(builds),
            requires=_first(builds, "requires"),
            witness=seen[0].witness if seen else None,
        ),
        tables=tuple(tables),
        notes=(*(p.text for p in matrix.policies if p.topic == name), *notes_of(builds)),
        sources=sources_of([*builds, *companions], f"{'builds' if builds else 'companions'}/{name}.toml"),
    )


def _first(builds: Sequence[Build], field: str) -> object:
    return next((getattr(row, field) for row in builds if getattr(row, field)), None)


def _numpy(builds: Sequence[Build]) -> object:
    if any(row.numpy2 is False for row in builds):
        return "1.x only (built against NumPy 1)"
    return "1.x and 2.x" if any(row.numpy2 for row in builds) else _first(builds, "numpy")


def _code(builds: Sequence[Build]) -> str:
    by: dict[tuple[str, ...], list[str]] = {}
    for row in builds:
        if row.capabilities:
            by.setdefault(row.capabilities, []).append(row.variant or row.version)
    return "; ".join(f"{' '.join(caps)} ({', '.join(dict.fromkeys(who))})" for caps, who in by.items())


def _builds_table(builds: Sequence[Build]) -> AnswerTable:
    return table(
        "Builds",
        ("version", "build", "CUDA", "cuDNN", "Python", "driver", "lowest GPU", "default on", "released", "yanked"),
        (
            (
                row.version,
                row.variant,
                row.cuda or row.cuda_tested,
                row.cudnn,
                span(row.python_min, row.python_max) or row.requires_python,
                row.driver_min and f">= {row.driver_min}",
                row.min_capability,
                row.default_on,
                row.released,
                row.yanked,
            )
            for row in builds
        ),
    )


def _companions_table(name: str, rows: Sequence[Companion]) -> AnswerTable:
    return table(
        f"What {name} asks for",
        ("version", "framework", "relation", "also", "Python", "released", "yanked"),
        (
            (
                row.version,
                f"{row.framework} {row.requirement}" if row.requirement else row.framework_version or "",
                row.relation,
                row.also_requires,
                row.requires_python or row.python_tags,
                row.released,
                row.yanked,
            )
            for row in rows
        ),
    )


def _companions_of_framework(matrix: Matrix, name: str, releases: Sequence[str]) -> list[AnswerTable]:
    rows = []
    for release in releases:
        fits = [(package, matrix.companion_for(package, release, name)) for package in COMPANIONS_SHOWN]
        if any(found for _, found in fits):
            rows.append((release, *(found.version if found else "" for _, found in fits)))
    return [table("What belongs to it", (name, *COMPANIONS_SHOWN), rows)] if rows else []


def _all_releases(matrix: Matrix, name: str, builds: Sequence[Build], companions: Sequence[Companion]) -> Answer:
    if not builds:
        return Answer(
            topic=name,
            title=f"{name}: {len(companions)} rows",
            tables=(_companions_table(name, companions),),
            sources=sources_of(companions, f"companions/{name}.toml"),
        )
    rows = []
    for release in dict.fromkeys(row.version for row in builds):
        same = [row for row in builds if row.version == release]
        default = next((row.variant for row in same if "linux-x86_64" in row.default_on), "")
        others = [row.variant for row in same if row.variant != default]
        tested = _first(same, "cuda") or _first(same, "cuda_tested")
        rows.append(
            (release, default or tested, others, span(same[0].python_min, same[0].python_max), same[0].released)
        )
    return Answer(
        topic=name,
        title=f"{name}: {len(rows)} releases",
        tables=(table("", ("version", "default or CUDA", "other builds", "Python", "released"), rows),),
        notes=tuple(p.text for p in matrix.policies if p.topic == name),
        sources=(f"matrices/builds/{name}.toml",),
    )


def show_packages(matrix: Matrix) -> Answer:
    """Every package that the matrix knows, with its newest release."""
    rows = []
    for name in matrix.packages():
        releases = matrix.versions_of(name)
        rows.append((name, len(releases), releases[0] if releases else ""))
    return Answer(
        topic="packages",
        title=f"{len(rows)} packages",
        tables=(table("", ("package", "releases", "newest"), rows),),
        sources=("matrices/builds/", "matrices/companions/"),
    )
