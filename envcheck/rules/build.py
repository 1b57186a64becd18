"""Which build each framework of a stack is: its accelerator, its CUDA, and the matrix row that describes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Optional

import msgspec

from envcheck import versions
from envcheck.matrix.specifiers import allows
from envcheck.model.fact import UnknownFact
from envcheck.model.finding import Evidence
from envcheck.model.stack import Package

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.matrix.rows import Build, PackageKind
    from envcheck.model.snapshot import Snapshot

_MAJOR_ONLY = re.compile(r"(\d{2})\.x")
_CU_SUFFIX = re.compile(r"-cu(\d{2})$")
# Plans and files that list what will be installed: a name there is a wish, not an installed build.
WISHES = frozenset({"plan", "requirements", "dockerfile", "compose", "lock", "pod", "devcontainer", "conda"})


class Built(msgspec.Struct, frozen=True):
    """A framework as it is installed. `accelerator` is cuda, cpu, rocm or None; `cuda` is X.Y, a bare major, or None.

    `row` is the matrix's row of exactly this build; None where the build isn't certain or the matrix lacks it.
    """

    package: Package
    kind: PackageKind
    accelerator: Optional[str] = None
    cuda: Optional[str] = None
    row: Optional[Build] = None
    source: str = ""

    @property
    def label(self) -> str:
        """'NAME 2.5.1+cu124', as a person would write it."""
        return label(self.package)

    @property
    def cuda_evidence(self) -> Evidence:
        """The CUDA that this build carries, and who says so."""
        return Evidence(f"CUDA of {self.label}", self.cuda or "unknown", self.source, "found")


def label(package: Package) -> str:
    """Name and version, with the variant where the version doesn't carry it."""
    text = f"{package.name} {package.version or package.requirement or ''}".strip()
    variant = package.variant
    return f"{text} ({variant})" if variant and variant not in text else text


def installed(snap: Snapshot, name: str) -> list[Package]:
    """The packages of this name; raises UnknownFact where nothing is known of packages."""
    return [package for package in snap.stack.packages.get() if package.name == name]


def frameworks(snap: Snapshot, matrix: Matrix) -> Iterator[Built]:
    """Every framework of the stack with its build; raises UnknownFact where the packages aren't known."""
    for package in snap.stack.packages.get():
        kind = matrix.package_kind(package.name)
        if kind is not None and (kind.role == "framework" or (kind.role == "obsolete" and kind.replaced_by)):
            yield built(package, kind, snap, matrix)


def with_cause(snap: Snapshot, matrix: Matrix, cause: str) -> Iterator[Built]:
    """The frameworks that can have this cause."""
    return (framework for framework in frameworks(snap, matrix) if cause in framework.kind.causes)


def platform(snap: Snapshot) -> Optional[str]:
    """'linux-x86_64', 'linux-aarch64', 'windows', 'macos'; None where it isn't told."""
    system = snap.machine.os.find() or ("linux" if snap.stack.glibc.find() or snap.machine.wsl.find() else None)
    if system in ("windows", "macos", "darwin"):
        return "macos" if system == "darwin" else system
    python = snap.stack.python.find()
    arch = snap.stack.arch.find() or snap.machine.arch.find()
    if python is not None and python.platform:
        arch = arch or python.platform.partition("_")[2]
        system = system or python.platform.partition("_")[0]
    return f"linux-{arch or 'x86_64'}" if system and "linux" in system else None


def built(package: Package, kind: PackageKind, snap: Snapshot, matrix: Matrix) -> Built:
    """The build that an installed package is."""
    row = _row(package, kind, snap, matrix)
    variant = package.variant or versions.local_variant(package.version) or ""
    said = package.cuda or versions.cuda_from_tag(variant)
    if said is None and (major := re.match(r"cuda(\d{2})", (package.version or "").partition("+")[2])):
        said = major.group(1)
    accelerator = _accelerator(package, variant, said, row)
    cuda, source = (said, package.source) if said else _cuda_of_row(row, matrix)
    if accelerator != "cuda":
        cuda = None
    return Built(package, kind, accelerator, cuda, row, source)


def _row(package: Package, kind: PackageKind, snap: Snapshot, matrix: Matrix) -> Optional[Build]:
    if not package.version:
        return None
    for plugin in snap.stack.packages.find() or ():
        of = matrix.package_kind(plugin.name)
        if of is not None and of.role == "plugin" and of.of == package.name:
            major = re.search(r"cuda\d{2}", plugin.name)
            return matrix.build(package.name, package.version, major.group() if major else None)
    variant = package.variant or versions.local_variant(package.version)
    if variant is None and package.cuda and "+" not in package.version:
        told = package.cuda
        fitting = [row for row in matrix.builds_of(package.name, package.version) if row.cuda and _same(row.cuda, told)]
        return fitting[0] if len(fitting) == 1 else None
    if variant or "+" in package.version:
        return matrix.build(package.name, package.version, variant)
    rows = matrix.builds_of(package.name, package.version)
    if len(rows) == 1:
        return rows[0]
    where = platform(snap)
    if package.installer == "conda" or where is None:
        return None  # conda builds its own; elsewhere the index gives another build on each platform
    return matrix.build(package.name, package.version, None, where)


def _same(left: str, right: str) -> bool:
    a, b = versions.find(left), versions.find(right)
    return bool(a and b and a.release[:2] == b.release[:2])


def _accelerator(package: Package, variant: str, said: Optional[str], row: Optional[Build]) -> Optional[str]:
    if package.hip or variant.startswith("rocm"):
        return "rocm"
    if variant == "cpu" or package.cuda == "":
        return "cpu"
    return "cuda" if said else (row.accelerator if row else None)


def _cuda_of_row(row: Optional[Build], matrix: Matrix) -> tuple[Optional[str], str]:
    if row is None:
        return None, ""
    source = f"matrices/builds/{row.package}.toml: {row.source}"
    if row.cuda:
        return row.cuda, source
    major = _MAJOR_ONLY.match(row.cuda_tested or "")
    return (major.group(1), source) if major else (None, source)


def major_of(text: Optional[str]) -> Optional[int]:
    """The major number of a version; None for none."""
    version = versions.find(text)
    return version.major if version else None


def library_major(package: Package) -> Optional[int]:
    """The CUDA major of a pip library package by its name ('…-cu12'); None for other packages."""
    match = _CU_SUFFIX.search(package.name)
    return int(match.group(1)) if match and package.name.startswith("nvidia-") else None


def whole(snap: Snapshot) -> bool:
    """Is the package list whole, so that absence proves something? Raises UnknownFact where that isn't known."""
    return bool(snap.stack.complete.get())


def need_whole(snap: Snapshot, what: str) -> None:
    """Raise UnknownFact unless absence from the package list proves that `what` isn't installed."""
    if not whole(snap):
        raise UnknownFact(f"whether {what} is installed: the package list is a fragment")


def row_source(row: object, subject: str) -> str:
    """'matrices/cuda.toml: where the row was read', for evidence."""
    return f"matrices/{subject}.toml: {getattr(row, 'source', '')}"


def meets(version: Optional[str], specifier: str) -> Optional[bool]:
    """None where either can't be read; a vendor's or nightly pre-release of the series is let through as unknown."""
    found = versions.find(version)
    if found is None or not specifier or found.is_prerelease:
        return None
    return allows(specifier, versions.parse(found.public))
