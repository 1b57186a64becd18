"""Companions: the torchvision, torchaudio and such that were made for a framework's release."""

from __future__ import annotations

from typing import Optional

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from envcheck.matrix.matrix import Matrix
from envcheck.matrix.rows import Build, Companion, Install


def companions(build: Build, install: Install, python: str, matrix: Matrix) -> tuple[list[Companion], list[str]]:
    """The companions made for a release, and those for which none is, each with the reason."""
    found: list[Companion] = []
    left_out: list[str] = []
    for name in install.companions:
        row = companion(name, build, matrix)
        if row is None:
            left_out.append(f"{name}: no release is bound to {build.package} {build.version}")
        elif not _has_python(row, python):
            left_out.append(f"{name} {row.version}: no wheel for Python {python} on record")
        else:
            found.append(row)
    return found, left_out


def companion(name: str, build: Build, matrix: Matrix) -> Optional[Companion]:
    """The release bound to this one; else one that admits it and came out with it (so the same index has it)."""
    bound = matrix.companion_for(name, build.version, build.package)
    if bound is not None:
        return bound
    release = Version(build.version)
    day = next((row.released for row in matrix.builds_of(build.package, build.version) if row.released), None)
    for row in matrix.companions_of(name):
        if row.yanked or row.framework != build.package:
            continue
        together = day is not None and row.released == day
        if row.relation == "range" and together and _admits(row.requirement, release):
            return row
        if row.relation == "none" and (together or row.version == build.version):
            return row
    return None


def _admits(specifier: str, release: Version) -> bool:
    try:
        return SpecifierSet(specifier).contains(release)
    except InvalidSpecifier:
        return False


def _has_python(row: Companion, python: str) -> bool:
    tags = row.python_tags
    return not tags or "py3" in tags or f"cp{python.replace('.', '')}" in tags
