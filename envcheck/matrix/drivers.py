"""Look-ups over CUDA releases and driver branches: which driver runs which CUDA."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Optional

from packaging.version import Version

from envcheck import versions
from envcheck.matrix.rows import CudaRelease, DriverBranch, ForwardCompat

PREVIEWS = ("rc", "preview")


def is_preview(release: CudaRelease) -> bool:
    """A release candidate or developer preview."""
    return any(word in release.release.lower() for word in PREVIEWS)


def same_minor(left: Optional[str], right: str) -> bool:
    """Do both name the same X.Y? False where one names none."""
    one, other = versions.find(left), versions.find(right)
    return one is not None and other is not None and one.release[:2] == other.release[:2]


def minors(releases: Iterable[CudaRelease]) -> tuple[str, ...]:
    """All X.Y with a general release, oldest first."""
    found = {versions.minor(row.version) for row in releases if not is_preview(row)}
    return tuple(sorted(found, key=Version))


def of_minor(releases: Iterable[CudaRelease], cuda: str) -> list[CudaRelease]:
    """The general releases of X.Y (of X.Y.Z too), oldest first."""
    wanted = versions.find(cuda)
    if wanted is None or len(wanted.release) < 2:
        return []
    found = [row for row in releases if not is_preview(row) and _parts(row.version)[:2] == wanted.release[:2]]
    return sorted(found, key=lambda row: _parts(row.version))


def find_release(releases: Iterable[CudaRelease], version: str) -> Optional[CudaRelease]:
    """The row of X.Y.Z, or the first general release of X.Y."""
    wanted = versions.find(version)
    if wanted is None:
        return None
    if len(wanted.release) >= 3:
        return next((row for row in releases if _parts(row.version) == wanted.release[:3]), None)
    return next(iter(of_minor(releases, version)), None)


def newest_patch(releases: Iterable[CudaRelease], minor: str) -> Optional[str]:
    """The newest X.Y.Z of X.Y."""
    found = of_minor(releases, minor)
    return found[-1].version if found else None


def native_floor(releases: Sequence[CudaRelease], cuda: str, os: str = "linux") -> Optional[str]:
    """The lowest driver of full support: of that patch release if it is told, else of its minor."""
    exact = find_release(releases, cuda) if len(_parts(cuda)) >= 3 else None
    told = _driver(exact, os) if exact else None
    if told:
        return told
    return min(filter(None, (_driver(row, os) for row in of_minor(releases, cuda))), key=Version, default=None)


def minor_floor(releases: Sequence[CudaRelease], cuda: str, os: str = "linux") -> Optional[str]:
    """The lowest driver by minor-version compatibility of X.Y; it may be a bare branch ('580')."""
    floors = (row.minor_linux if os == "linux" else row.minor_windows for row in of_minor(releases, cuda))
    return next(filter(None, floors), None)


def find_branch(branches: Iterable[DriverBranch], driver: str, platform: str = "linux") -> Optional[DriverBranch]:
    """The branch of a driver version or bare branch. On Windows a branch spans several majors: R525 is 525 to 529."""
    version = versions.find(driver)
    if version is None:
        return None
    rows = [row for row in branches if row.platform == platform]
    if platform == "linux":
        return next((row for row in rows if row.branch == version.major), None)
    fitting = [row for row in rows if row.branch <= version.major <= versions.branch(row.latest or str(row.branch))]
    return max(fitting, key=lambda row: row.branch, default=None)


def newest_native(
    releases: Sequence[CudaRelease], branches: Sequence[DriverBranch], driver: str, os: str = "linux"
) -> Optional[str]:
    """The newest CUDA X.Y that the driver runs natively: by its branch's row, else by the floors; None below all."""
    version = versions.find(driver)
    if version is None:
        return None
    row = find_branch(branches, driver, os)
    # Windows rows don't repeat the CUDA; the branch's name and its CUDA are those of Linux.
    linux = find_branch(branches, str(row.branch)) if row else None
    told = (row.max_cuda if row else None) or (linux.max_cuda if linux else None)
    if told:
        return told
    reached = [
        minor
        for minor in minors(releases)
        if (floor := native_floor(releases, minor, os)) and Version(floor) <= _highest(version)
    ]
    return reached[-1] if reached else None


def runs(
    releases: Sequence[CudaRelease], branches: Sequence[DriverBranch], driver: str, cuda: str, os: str = "linux"
) -> Optional[str]:
    """'native', 'minor' or 'no'; None where the driver or the CUDA has no floor that decides."""
    version = versions.find(driver)
    wanted = versions.find(cuda)
    if version is None or wanted is None or not of_minor(releases, cuda):
        return None
    newest = newest_native(releases, branches, driver, os)
    if newest and Version(newest).release[:2] >= wanted.release[:2]:
        return "native"
    floor = minor_floor(releases, cuda, os)
    if floor:
        return "minor" if _highest(version) >= Version(floor) else "no"
    if wanted.major >= 11 and os != "linux":
        return None  # Windows floors of CUDA 13 aren't published
    return "no" if newest or native_floor(releases, cuda, os) else None


def forward_compat(rows: Iterable[ForwardCompat], driver: str, cuda: str) -> Optional[bool]:
    """Is the pair of this branch and this cuda-compat in NVIDIA's table, and does it work?"""
    version = versions.find(driver)
    wanted = versions.find(cuda)
    if version is None or wanted is None:
        return None
    for row in rows:
        if row.branch == version.major and _parts(row.cuda) == wanted.release[:2]:
            return row.works
    return None


def _highest(driver: Version) -> Version:
    """A bare branch stands for its newest driver."""
    return Version(f"{driver.major}.9999") if len(driver.release) == 1 else driver


def _driver(row: CudaRelease, os: str) -> Optional[str]:
    return row.linux_driver if os == "linux" else row.windows_driver


def _parts(text: str) -> tuple[int, ...]:
    version = versions.find(text)
    return version.release[:3] if version else ()
