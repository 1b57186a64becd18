"""Look-ups over builds and companions of packages."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Optional

from packaging.version import InvalidVersion, Version

from envcheck import versions
from envcheck.errors import UnknownName
from envcheck.matrix.drivers import same_minor
from envcheck.matrix.rows import Build, Companion
from envcheck.matrix.specifiers import allows, find_specifiers

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix


def normal(package: str) -> str:
    """The PEP 503 spelling of a package name."""
    return re.sub(r"[-_.]+", "-", package).lower()


def public(version: str) -> str:
    """The version without its local part: '2.5.1+cu124' -> '2.5.1'."""
    return version.partition("+")[0]


def matches(version: str, wanted: str) -> bool:
    """Is `version` the wanted one, or of its leading parts? '2.1' has 2.1.0 and 2.1.2, not 2.10."""
    if not wanted or version == wanted:
        return True
    have, want = versions.find(version), versions.find(wanted)
    if have is None or want is None:
        return False
    if have == want:
        return True
    plain = want.pre is None and want.post is None and want.dev is None
    return plain and len(want.release) < 3 and have.release[: len(want.release)] == want.release


def select(rows: Iterable[Build], version: str, variant: Optional[str], cuda: Optional[str]) -> tuple[Build, ...]:
    """The builds of a release (or leading parts), a variant, a CUDA X.Y; newest release first, then newest CUDA."""
    wanted = public(version)
    found = [
        row
        for row in rows
        if matches(row.version, wanted)
        and (variant is None or row.variant == variant)
        and (cuda is None or same_minor(row.cuda, cuda))
    ]
    return tuple(sorted(found, key=_age, reverse=True))


def _age(row: Build) -> tuple[Version, Version, str]:
    return _version(row.version), _version(row.cuda or "0"), row.variant


def _version(text: str) -> Version:
    return versions.find(text) or Version("0")


def find(rows: Iterable[Build], version: str, variant: Optional[str], platform: str) -> Optional[Build]:
    """One build of one release; see Matrix.build."""
    try:
        wanted = Version(Version(version).public)
    except InvalidVersion:
        return None
    same = [row for row in rows if versions.find(row.version) == wanted]
    tag = variant if variant is not None else versions.local_variant(version)
    if tag is None and "+" in version and any(row.variant == version.partition("+")[2] for row in same):
        tag = version.partition("+")[2]  # jaxlib's 'cuda12.cudnn89'
    if tag is not None:
        return next((row for row in same if row.variant == tag), None)
    default = [row for row in same if platform in row.default_on]
    if len(default) == 1:
        return default[0]
    return same[0] if len(same) == 1 else None


def get(matrix: Matrix, package: str, version: str, variant: Optional[str]) -> Build:
    """As find; raises UnknownName for the part that isn't known."""
    found = matrix.build(package, version, variant)
    if found is not None:
        return found
    releases_known = matrix.versions_of(package)
    if not releases_known:
        raise UnknownName("package", package, matrix.packages(), "envcheck matrix show packages")
    known = matrix.builds_of(package, version)
    if not known or variant is None:
        raise UnknownName(f"release of {package}", version, releases_known, f"envcheck matrix show {package}")
    raise UnknownName(f"build of {package} {version}", variant, matrix.variants(package, version))


def releases(rows: Iterable[Any]) -> tuple[str, ...]:
    """The versions of build or companion rows, newest first."""
    return tuple(sorted({row.version for row in rows}, key=_version, reverse=True))


def supports_python(build: Build, python: str) -> Optional[bool]:
    """Is there a wheel for this Python ('3.11' or '3.11.9')? By its files where known, else by requires-python."""
    wanted = versions.find(python)
    if wanted is None:
        return None
    short = Version(".".join(map(str, wanted.release[:2])))
    low, high = versions.find(build.python_min), versions.find(build.python_max)
    if (low is not None and short < low) or (high is not None and high < short):
        return False
    if build.requires_python:  # it binds beside the files: abi3 wheels overstate
        specifiers = find_specifiers(build.requires_python)
        return specifiers.contains(f"{short}.99" if len(wanted.release) < 3 else python) if specifiers else None
    return None if low is None and high is None else True


def newest(
    matrix: Matrix,
    package: str,
    version: str,
    capabilities: Sequence[str],
    driver: Optional[str],
    python: Optional[str],
    cuda: Optional[str],
    os: str,
) -> Optional[Build]:
    """See Matrix.newest_build."""
    for row in matrix.builds_of(package, version, cuda=cuda):
        if row.yanked or row.accelerator not in (None, "cuda") or row.cuda is None:
            continue
        if python and not supports_python(row, python):
            continue
        if driver and matrix.runs_cuda(driver, row.cuda, os) not in ("native", "minor"):
            continue
        if capabilities and row.capabilities is None:
            continue
        if all(matrix.kernels(row.capabilities or (), capability) for capability in capabilities):
            return row
    return None


def select_companions(rows: Iterable[Companion], version: str) -> tuple[Companion, ...]:
    """Companion rows of a release (or leading parts), newest first."""
    found = [row for row in rows if matches(row.version, public(version))]
    return tuple(sorted(found, key=lambda row: _version(row.version), reverse=True))


def companion_for(
    rows: Sequence[Companion], framework: str, version: str, released: Optional[str]
) -> Optional[Companion]:
    """The newest companion that its metadata binds to this release of the framework; else one whose range admits it
    and that came out with it (`released` is the framework's day): others may lack its variants, or were never tried."""
    release = versions.find(public(version))
    if release is None:
        return None
    mine = [row for row in rows if row.framework == framework and not row.yanked]
    for row in mine:
        if row.framework_version and versions.find(public(row.framework_version)) == release:
            return row
        if row.relation == "exact" and _admits(row.requirement, release):
            return row
    for row in mine:
        if row.relation == "range" and _together(row.released, released) and _admits(row.requirement, release):
            return row
    return None


def _together(left: Optional[str], right: Optional[str]) -> bool:
    """Days not more than a week apart."""
    if not left or not right or len(left) != 10 or len(right) != 10:
        return False
    return abs(dt.date.fromisoformat(left) - dt.date.fromisoformat(right)) <= dt.timedelta(days=7)


def _admits(requirement: str, release: Version) -> bool:
    return allows(requirement, versions.parse(release.base_version)) or False
