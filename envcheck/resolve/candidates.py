"""Candidates: the builds and NVIDIA images of a framework, as one kind of value that constraints can judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envcheck import versions
from envcheck.errors import UnknownName
from envcheck.matrix.builds import supports_python
from envcheck.matrix.matrix import Matrix
from envcheck.matrix.rows import Build, FrameworkImage, Install

PLATFORM = "linux-x86_64"


class Candidate(msgspec.Struct, frozen=True):
    """Official wheels (`build` and how to install them) or NVIDIA's image (`image`) of one framework release."""

    framework: str
    version: str  # release: '2.1.2'; of an image '2.1.0a0+b5021ba'
    cuda: str  # X.Y or longer, as published
    cudnn: Optional[str]
    build: Optional[Build] = None
    install: Optional[Install] = None
    image: Optional[FrameworkImage] = None

    @property
    def release(self) -> str:
        """X.Y of the framework."""
        return versions.minor(self.version)

    @property
    def any_minor(self) -> bool:
        """Does the build run on every CUDA of its major, from its own up? (JAX's plugins.)"""
        return bool(self.build and self.build.cuda_tested and self.build.cuda_tested.endswith(".x"))


def frameworks(matrix: Matrix) -> tuple[str, ...]:
    """The frameworks that a request may name, in the order of the matrix."""
    return tuple(dict.fromkeys(row.package for row in matrix.installs if row.libraries != "compile"))


def find_install(matrix: Matrix, package: str, version: str) -> Optional[Install]:
    """How a release is installed; None for one that no row is for."""
    release = Version(version)
    return next(
        (
            row
            for row in matrix.installs
            if row.package == package and SpecifierSet(row.versions, prereleases=True).contains(release)
        ),
        None,
    )


def wheels(matrix: Matrix, framework: str, version: str = "") -> Iterator[Candidate]:
    """CUDA builds on the indexes, of a release if one is given; best first.

    That is the newest release, and of it the default index's build, then the newest CUDA.
    """
    rows = [
        row
        for row in matrix.builds_of(framework, version)
        if row.cuda and not row.yanked and row.accelerator in (None, "cuda")
    ]
    rows.sort(
        key=lambda row: (Version(row.version), PLATFORM in row.default_on, Version(row.cuda or "0")), reverse=True
    )
    for row in rows:
        install = find_install(matrix, framework, row.version)
        if install is not None and row.cuda is not None:
            yield Candidate(framework, row.version, row.cuda, row.cudnn, build=row, install=install)


def images(matrix: Matrix, framework: str) -> Iterator[Candidate]:
    """NVIDIA's images of the framework whose release and CUDA are known, newest first."""
    for row in matrix.framework_images(framework):
        if row.framework != framework or not row.framework_version or not row.cuda:
            continue
        if versions.find(row.framework_version) is None or versions.find(row.cuda) is None:
            continue
        yield Candidate(framework, row.framework_version, row.cuda, row.cudnn, image=row)


def get_framework(matrix: Matrix, name: str) -> str:
    """A framework by name; raises UnknownName with the nearest."""
    known = frameworks(matrix)
    if name not in known:
        raise UnknownName("framework", name, known)
    return name


def get_releases(matrix: Matrix, framework: str, version: str) -> None:
    """Raise UnknownName where the matrix has no release that `version` means, neither as wheels nor as an image."""
    from envcheck.matrix.builds import matches

    known = matrix.versions_of(framework)
    inside = [row.framework_version or "" for row in matrix.framework_images(framework)]
    if (
        version
        and not any(matches(have, version) for have in known)
        and not any(have and versions.find(have) and versions.minor(have) == version for have in inside)
    ):
        short = list(dict.fromkeys(versions.minor(v) for v in known))
        raise UnknownName(f"release of {framework}", version, [*short, *known], f"envcheck matrix show {framework}")


def pythons_of(candidate: Candidate, matrix: Matrix) -> tuple[str, ...]:
    """The Pythons (X.Y, newest first) that the candidate has wheels for, of those that an image can get."""
    known = sorted({row.python for row in matrix.pythons}, key=Version, reverse=True)
    if candidate.image is not None:
        inside = versions.find(candidate.image.python)
        return (f"{inside.major}.{inside.minor}",) if inside else ()
    assert candidate.build is not None
    return tuple(python for python in known if _supports(candidate.build, matrix, python))


def _supports(build: Build, matrix: Matrix, python: str) -> bool:
    if supports_python(build, python) is not True:
        return False
    if build.python_max is not None:
        return True
    # Without files of its own (a pure-Python release): what it requires binds it.
    for text in build.requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        rows = [row for row in matrix.builds_of(requirement.name) if requirement.specifier.contains(row.version)]
        if rows and not any(supports_python(row, python) for row in rows):
            return False
    return True
