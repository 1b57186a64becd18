"""Whether this driver runs a CUDA, and which driver would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

import msgspec
from packaging.version import Version

from envcheck import versions
from envcheck.model.fact import UnknownFact
from envcheck.model.finding import Evidence
from envcheck.rules.build import Built, frameworks
from envcheck.rules.presence import driver_os, in_image

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envcheck.matrix.matrix import Matrix
    from envcheck.matrix.rows import GpuModel
    from envcheck.model.machine import Driver
    from envcheck.model.snapshot import Snapshot

FIRST_MINOR_COMPATIBLE = 11  # minor-version compatibility exists from this CUDA major on


class Runtime(msgspec.Struct, frozen=True):
    """A CUDA runtime that the stack will start: whose it is, its CUDA, who says so, and the framework if it is one."""

    whose: str
    cuda: str
    source: str
    framework: Optional[Built] = None


def runtimes(snap: Snapshot, matrix: Matrix) -> Iterator[Runtime]:
    """The frameworks' CUDA runtimes, else the image's. Raises UnknownFact where it isn't told which there are."""
    unsure = ""
    found = False
    if snap.stack.packages.known:
        for framework in frameworks(snap, matrix):
            if framework.cuda:
                found = True
                yield Runtime(framework.label, framework.cuda, framework.source, framework)
            elif framework.accelerator is None:
                unsure = unsure or f"CUDA of {framework.label}: its build isn't told"
    image = snap.stack.cuda.find() if in_image(snap) else None
    if not found and image:
        yield Runtime("the image", image, snap.stack.cuda.source)
        return
    if unsure:
        raise UnknownFact(unsure)
    if not found:
        snap.stack.packages.get()


def with_minor(cuda: str) -> str:
    """'12' -> '12.0': the least that a build for a bare major needs."""
    return cuda if "." in cuda else f"{cuda}.0"


def runs(snap: Snapshot, matrix: Matrix, driver: Driver, cuda: str) -> Optional[str]:
    """'native', 'minor' or 'no'; None where what is known of the driver doesn't decide."""
    wanted = with_minor(cuda)
    system = driver_os(snap)
    if driver.version:
        told = matrix.runs_cuda(driver.version, wanted, system)
        # NVML may know of a newer CUDA than the number of a branch tells; a bare branch stands for its newest.
        if told is not None:
            return told
    newest, needed = versions.find(driver.cuda), versions.find(wanted)
    if newest is None or needed is None:
        return None
    if newest.release[:2] >= needed.release[:2]:
        return "native"
    if newest.major < needed.major or needed.major < FIRST_MINOR_COMPATIBLE:
        return "no"
    lowest, floor = matrix.driver_floor(str(driver.cuda), system), matrix.minor_floor(wanted, system)
    if lowest and floor and Version(lowest) >= Version(floor):
        return "minor"
    return None


def need_verdict(snap: Snapshot, matrix: Matrix, driver: Driver, cuda: str) -> str:
    """As runs; raises UnknownFact where it isn't decided."""
    told = runs(snap, matrix, driver, cuda)
    if told is None:
        raise UnknownFact(f"whether driver {describe(driver)} runs CUDA {cuda}: no floor is known for it")
    return told


def describe(driver: Driver) -> str:
    """'535.104.05 (CUDA 12.2)', with what is known."""
    if driver.version and driver.cuda:
        return f"{driver.version} (CUDA {driver.cuda})"
    return driver.version or (f"of CUDA {driver.cuda}" if driver.cuda else "of unknown version")


def needed_driver(snap: Snapshot, matrix: Matrix, cuda: str) -> Optional[str]:
    """The lowest driver that runs this CUDA at all, and knows this machine's GPUs."""
    system, wanted = driver_os(snap), with_minor(cuda)
    floor = matrix.minor_floor(wanted, system) or matrix.driver_floor(wanted, system)
    newest = _newest_gpu(snap, matrix) if system == "linux" else None
    if floor and newest and newest.min_branch and versions.branch(floor) < newest.min_branch:
        return str(newest.min_branch)
    return floor


def _newest_gpu(snap: Snapshot, matrix: Matrix) -> Optional[GpuModel]:
    """The model of this machine that came with the newest driver branch; None where none is known."""
    models = [matrix.model_of(gpu) for gpu in snap.machine.gpus.find() or ()]
    known = [model for model in models if model is not None and model.min_branch]
    return max(known, key=lambda model: model.min_branch or 0, default=None)


def floor_evidence(snap: Snapshot, matrix: Matrix, cuda: str) -> Evidence:
    """The driver that the CUDA needs, with the matrix row's source."""
    needed = needed_driver(snap, matrix, cuda)
    release = matrix.cuda_release(with_minor(cuda))
    source = f"matrices/cuda.toml: {release.source}" if release else "matrices/cuda.toml"
    newest = _newest_gpu(snap, matrix)
    if newest is not None and needed == str(newest.min_branch):
        source = f"matrices/gpus.toml: {newest.source}"
    return Evidence("driver", f"driver >= {needed or 'unknown'}", source, "needed")


def driver_evidence(driver: Driver, source: str) -> Evidence:
    """The driver that was found, and who says so."""
    return Evidence("driver", describe(driver), driver.source or source, "found")
