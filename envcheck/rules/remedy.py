"""The exact commands of a fix: the build to install that works with this driver, these GPUs and this Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Optional

from packaging.version import Version

from envcheck import versions
from envcheck.rules.image_remedy import fitting_image
from envcheck.rules.presence import driver_os, visible_gpus

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.matrix.rows import Build
    from envcheck.model.snapshot import Snapshot
    from envcheck.rules.build import Built


def install_line(matrix: Matrix, row: Build, with_companions: Iterable[str] = ()) -> str:
    """'pip install NAME==V COMPANION==W --index-url …', of one build and the companions that belong to it."""
    kind = matrix.package_kind(row.package)
    wanted = [f"{row.package}=={row.version}"]
    if kind is not None and kind.gpu_requirement and row.accelerator == "cuda":
        wanted = [kind.gpu_requirement.replace("{version}", row.version)]
    for name in with_companions:
        companion = matrix.companion_for(name, row.version, row.package)
        if companion is not None:
            wanted.append(f"{name}=={companion.version}")
    quoted = " ".join(f"'{text}'" if "[" in text else text for text in wanted)
    index = f" --index-url {kind.index_url.format(variant=row.variant)}" if kind and kind.index_url else ""
    return f"pip install {quoted}{index}"


def companions_here(snap: Snapshot, matrix: Matrix, framework: str) -> list[str]:
    """The companions of a framework that are installed, sorted."""
    found = []
    for package in snap.stack.packages.find() or ():
        kind = matrix.package_kind(package.name)
        if kind is not None and kind.role == "companion" and kind.of == framework:
            found.append(package.name)
    return sorted(set(found))


def fitting_build(
    snap: Snapshot, matrix: Matrix, framework: Built, *, same_release: bool = False, cuda_major: Optional[int] = None
) -> Optional[Build]:
    """The GPU build nearest to the installed one that works with this driver, these GPUs and this Python.

    Nearest: the same release, else the next newer minor (its last patch), else the last older. Among its variants:
    the one there is, else one that the driver runs natively, else the newest.
    """
    name = framework.package.name
    here = versions.find(framework.package.version) or Version("0")
    driver = snap.machine.driver.find()
    told = (driver.version or "") if driver else ""
    gpus = visible_gpus(snap) if snap.machine.gpus.known else []
    capabilities = [found for gpu in gpus if (found := matrix.capability_of(gpu))]
    python = snap.stack.python.find()
    system = driver_os(snap)
    best: Optional[tuple[tuple[object, ...], Build]] = None
    for row in matrix.builds_of(name):
        if row.yanked or row.accelerator != "cuda" or not row.cuda:
            continue
        version = versions.find(row.version) or Version("0")
        if same_release and version.release != here.release:
            continue
        if cuda_major is not None and versions.parse(row.cuda).major != cuda_major:
            continue
        how = matrix.runs_cuda(told, row.cuda, system) if told else _by_cuda(driver.cuda if driver else None, row.cuda)
        if how == "no" or (python and python.version and matrix.supports_python(row, python.version) is False):
            continue
        if capabilities and row.capabilities is None:
            continue
        ways = [matrix.kernels(row.capabilities or (), capability) for capability in capabilities]
        if None in ways or ("ptx" in ways and how == "minor"):
            continue
        rank = (*_distance(here, version), row.variant != framework.package.variant, how != "native", _newest(row.cuda))
        if best is None or rank < best[0]:
            best = rank, row
    return best[1] if best else None


def _by_cuda(newest: Optional[str], cuda: str) -> Optional[str]:
    have, want = versions.find(newest), versions.find(cuda)
    if have is None or want is None:
        return None
    if have.release[:2] >= want.release[:2]:
        return "native"
    return "minor" if have.major == want.major and want.major > 11 else "no"


def _distance(here: Version, other: Version) -> tuple[int, int, tuple[int, ...]]:
    """Sorts the same release first, then newer minors upwards, then older ones downwards; last patch first."""
    if other.release == here.release:
        return 0, 0, ()
    minor = other.major * 1000 + other.minor - here.major * 1000 - here.minor
    return (1 if minor >= 0 else 2), abs(minor), tuple(-part for part in other.release[2:3])


def _newest(cuda: str) -> tuple[int, ...]:
    return tuple(-part for part in versions.parse(cuda).release[:2])


def framework_fix(snap: Snapshot, matrix: Matrix, framework: Built, *, same_release: bool = False) -> Optional[str]:
    """The line that installs the nearest fitting build; None where none is known."""
    if framework.package.installer == "image":  # its vendor's build: another image, not a wheel over it
        other = fitting_image(snap, matrix, framework.package.name)
        return f"use the image {other}" if other else None
    row = fitting_build(snap, matrix, framework, same_release=same_release)
    if row is None:
        return None
    return install_line(matrix, row, companions_here(snap, matrix, framework.package.name))
