"""Bases: which tag of nvidia/cuda a wheel goes on, and where that image's Python comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Optional

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envcheck import versions
from envcheck.matrix.builds import normal
from envcheck.matrix.matrix import Matrix
from envcheck.matrix.rows import CudaImage, Distro, PythonSource, Tool
from envcheck.model.plan import PythonPlan
from envcheck.model.request import Flavour, Request
from envcheck.resolve.candidates import Candidate, pythons_of

REPOSITORY = "nvcr.io/nvidia/cuda"
RETIRED = "unsupported"  # how the tag lists begin the status of an end-of-life tag


class Base(msgspec.Struct, frozen=True):
    """A tag and the Python that the image gets."""

    row: CudaImage
    distro: Distro
    python: PythonPlan
    source: PythonSource

    @property
    def reference(self) -> str:
        """What FROM says."""
        return f"{REPOSITORY}:{self.row.tag}"

    @property
    def retired(self) -> bool:
        """Is the tag end of life?"""
        return is_retired(self.row)


def is_retired(row: CudaImage) -> bool:
    """Is the tag on NVIDIA's list of those that get deleted?"""
    return row.status.startswith(RETIRED)


def name_of(requirement: str) -> str:
    """The package of a plain requirement."""
    for index, letter in enumerate(requirement):
        if not (letter.isalnum() or letter in "._-"):
            return normal(requirement[:index])
    return normal(requirement)


def compiles(requirement: str, matrix: Matrix) -> bool:
    """Does pip compile CUDA code when it installs the package?"""
    name = name_of(requirement)
    return any(row.libraries == "compile" and row.package == name for row in matrix.installs)


def flavour_for(candidate: Candidate, request: Request, matrix: Matrix) -> Flavour:
    """The smallest flavour that works, unless one was asked for."""
    if request.flavour:
        return request.flavour
    if any(compiles(text, matrix) for text in request.packages):
        return "devel"
    assert candidate.install is not None
    return "runtime" if candidate.install.libraries == "system" else "base"


def find_base(
    candidate: Candidate, request: Request, matrix: Matrix, *, python: Optional[str], cuda: Optional[str]
) -> Optional[Base]:
    """The best base for the wheels of a candidate; None where no tag or no Python fits."""
    assert candidate.install is not None
    system = candidate.install.libraries == "system"
    flavour = flavour_for(candidate, request, matrix)
    if system and flavour == "base":
        return None  # has neither cuBLAS nor cuDNN, and the wheels bring none
    supported = pythons_of(candidate, matrix)
    wanted = [python] if python else list(supported)
    if python and python not in supported:
        return None
    asked = cuda if cuda and (candidate.any_minor or len(versions.parse(cuda).release) > 2) else candidate.cuda
    if candidate.any_minor and not cuda:
        asked = str(versions.parse(candidate.cuda).major)
    floor = _glibc(candidate, matrix)
    driver = request.machine.driver.find()
    told = driver.version if driver else None
    for rows in _tags(matrix, asked, flavour, system, request.cudnn if system else None):
        # A newer base asks for a newer driver than the wheels do: not on a machine whose driver is told.
        if told and any(_parts(row)[:2] > versions.parse(candidate.cuda).release[:2] for row in rows):
            rows = [row for row in rows if matrix.runs_cuda(told, row.cuda) == "native"]
        found = list(_options(rows, wanted, floor, flavour, matrix))
        if found:
            common = frozenset(row.python for row in matrix.pythons if row.origin == "apt")
            return max(found, key=lambda base: _rank(base, common))
    return None


def _rank(base: Base, common: frozenset[str]) -> tuple[bool, Version, bool, Version, Version]:
    # Ubuntu's own Python before one that is fetched; then the newest Ubuntu; a Python that some Ubuntu has before one
    # that is new to everybody; then the newest patch, the newest Python.
    return (
        base.source.origin == "apt",
        Version(base.distro.glibc),
        base.source.python in common,
        Version(base.row.cuda),
        Version(base.source.python),
    )


def _tags(matrix: Matrix, cuda: str, flavour: Flavour, system: bool, cudnn: Optional[str]) -> Iterator[list[CudaImage]]:
    """Groups of tags, the best group first. Wheels that bring their CUDA run on another one's image as well."""
    fitting = [
        row
        for row in matrix.cuda_images
        if row.flavour == flavour and row.has_cudnn == system and (not row.arches or "amd64" in row.arches)
    ]
    asked = versions.parse(cuda).release
    if system:
        own = [row for row in fitting if _parts(row)[: len(asked)] == asked and _has_cudnn(row, cudnn)]
        yield [row for row in own if not is_retired(row)]
        yield own
        return
    yield [row for row in fitting if _parts(row)[: len(asked)] == asked and not is_retired(row)]
    if len(asked) > 2:  # a patch release of the toolkit was asked for: that one or none
        yield [row for row in fitting if _parts(row) == asked]
        return
    living = {_parts(row)[:2] for row in fitting if not is_retired(row)}
    minor = asked[:2]
    newer = sorted(m for m in living if m > minor and m[0] == minor[0])
    older = sorted((m for m in living if m < minor and m[0] == minor[0]), reverse=True)
    later = sorted(m for m in living if m[0] > minor[0])
    for other in [*newer, *older, *later]:
        yield [row for row in fitting if _parts(row)[:2] == other and not is_retired(row)]
    yield [row for row in fitting if _parts(row)[: len(asked)] == asked]


def _parts(row: CudaImage) -> tuple[int, ...]:
    return versions.parse(row.cuda).release


def _has_cudnn(row: CudaImage, wanted: Optional[str]) -> bool:
    if wanted is None:
        return True
    asked, have = versions.parse(wanted).release, versions.find(row.cudnn)
    return have is not None and have.release[: len(asked)] == asked


def _options(
    rows: Iterable[CudaImage], wanted: list[str], floor: Version, flavour: Flavour, matrix: Matrix
) -> Iterator[Base]:
    distros = {row.name: row for row in matrix.distros}
    for row in rows:
        distro = distros.get(row.distro)
        if distro is None or Version(distro.glibc) < floor:
            continue
        for source in matrix.pythons:
            if source.python in wanted and source.distro in ("", distro.name):
                plan = _python(source, distro, flavour, matrix)
                if plan is not None:
                    yield Base(row, distro, plan, source)


def _python(source: PythonSource, distro: Distro, flavour: Flavour, matrix: Matrix) -> Optional[PythonPlan]:
    pip = _tool("pip", source.python, matrix)
    headers = source.headers if flavour == "devel" else ()
    if source.origin == "apt":
        packages = (*source.packages, *headers)
        return PythonPlan(source.python, "apt", packages, source.executable, pip.version if pip else "")
    own = next((row for row in matrix.pythons if row.origin == "apt" and row.distro == distro.name), None)
    uv = _tool("uv", own.python, matrix) if own else None
    if own is None or uv is None:
        return None
    return PythonPlan(
        source.version,
        "uv",
        own.packages,
        f"python{source.python}",
        pip.version if pip else "",
        uv.version,
        uv.hashes,
    )


def _tool(name: str, python: str, matrix: Matrix) -> Optional[Tool]:
    return next((row for row in matrix.tools if row.name == name and python in SpecifierSet(row.python)), None)


def _glibc(candidate: Candidate, matrix: Matrix) -> Version:
    """What the wheels need, by any build of the release: variants are built on the same distribution."""
    told = [row.glibc for row in matrix.builds_of(candidate.framework, candidate.version) if row.glibc]
    return max(map(Version, told), default=Version("2.17"))
