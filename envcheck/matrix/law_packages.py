"""The laws over builds, companions, pins and images."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from packaging.version import Version

from envcheck import versions
from envcheck.matrix.builds import normal, public
from envcheck.matrix.images import repository, tag
from envcheck.matrix.matrix import Matrix
from envcheck.matrix.rows import Build
from envcheck.matrix.specifiers import find_requirement, find_specifiers, is_empty
from envcheck.matrix.tables import Fault, Table, name_of

REFERENCE = re.compile(r"(?:nvcr\.io|ghcr\.io)/nvidia/[a-z0-9._-]+:[A-Za-z0-9_][A-Za-z0-9._-]*")
MONTHLY = re.compile(r"\d\d\.(0[1-9]|1[0-2])(\.\d+)?(\.rc\d+)?(-[a-z0-9.-]+)?")
NIGHTLY = re.compile(r"base-\d{4}-\d\d-\d\d")
PLATFORMS = {"linux-x86_64", "linux-aarch64", "windows", "macos"}


def _rows(tables: Sequence[Table], subject: str) -> Iterator[tuple[Table, Any]]:
    for table in tables:
        if table.subject.name == subject:
            for row in table.rows:
                yield table, row


def _fault(table: Table, row: Any, key: str, what: str) -> Fault:
    return Fault(table.file, name_of(row, table.subject), key, what)


def _no_cuda(matrix: Matrix, cuda: Optional[str]) -> bool:
    version = versions.find(cuda)
    if version is None:
        return False
    minors = matrix.cuda_minors()
    older_than_all = bool(minors) and version < Version(minors[0])
    return not older_than_all and f"{version.major}.{version.minor}" not in minors


def files_hold_their_own(matrix: Matrix, tables: Sequence[Table]) -> Iterator[Fault]:
    """The rows of builds/torch.toml are torch's, and names are in the PEP 503 spelling."""
    field = {"builds": "package", "companions": "package", "pins": "framework"}
    for table in tables:
        for row in table.rows:
            if table.subject.name == "framework_images":
                name = repository(row.reference)
                wanted = "tritonserver" if name == "tensorrtserver" else name
            elif table.subject.name in field:
                wanted = getattr(row, field[table.subject.name])
            else:
                break
            if wanted != table.part or (table.subject.name in field and normal(wanted) != wanted):
                yield _fault(table, row, field.get(table.subject.name, "reference"), f"{wanted!r} is not of this file")


def builds_fit_their_cuda(matrix: Matrix, tables: Sequence[Table]) -> Iterator[Fault]:
    """The CUDA exists, is the one that the variant names, and compiles for every architecture in the build."""
    for table, row in _rows(tables, "builds"):
        if _no_cuda(matrix, row.cuda):
            yield _fault(table, row, "cuda", f"no CUDA {row.cuda}")
        named = versions.cuda_from_tag(row.variant)
        if named and row.cuda != named:
            yield _fault(table, row, "cuda", f"{row.cuda} is not what {row.variant} says")
        kind = (
            "rocm" if row.variant.startswith("rocm") else "cpu" if row.variant == "cpu" else "cuda" if named else None
        )
        if kind and row.accelerator != kind:
            yield _fault(table, row, "accelerator", f"{row.accelerator} is not what {row.variant} says")
        if row.accelerator in ("cpu", "rocm") and (row.cuda or row.capabilities):
            yield _fault(table, row, "cuda", f"a {row.accelerator} build has none")
        yield from _capabilities(matrix, table, row)


def _capabilities(matrix: Matrix, table: Table, row: Build) -> Iterator[Fault]:
    seen: set[str] = set()
    for text in row.capabilities or ():
        try:
            versions.capability(text)
        except ValueError:
            yield _fault(table, row, "capabilities", f"not a compute capability: {text!r}")
            continue
        if text in seen:
            yield _fault(table, row, "capabilities", f"{text} twice")
        seen.add(text)
        plain = text.partition("+")[0]
        if matrix.capability(plain) is None:
            yield _fault(table, row, "capabilities", f"no capability {plain}")
        elif row.cuda and matrix.compiles_for(plain, row.cuda) is False:
            yield _fault(table, row, "capabilities", f"CUDA {row.cuda} doesn't compile for {plain}")
    if row.capabilities == ():
        yield _fault(table, row, "capabilities", "empty: leave it out where it is unknown")


def builds_can_be_installed(matrix: Matrix, tables: Sequence[Table]) -> Iterator[Fault]:
    """Python ranges aren't empty, specifiers and requirements parse, and an index gives one default a platform."""
    defaults: set[tuple[str, str, str]] = set()
    for table, row in _rows(tables, "builds"):
        low, high = versions.find(row.python_min), versions.find(row.python_max)
        if low and high and low > high:
            yield _fault(table, row, "python_max", f"{row.python_max} is below {row.python_min}")
        for key in ("requires_python", "numpy"):
            yield from _specifier(table, row, key, getattr(row, key))
        for text in row.requires:
            if find_requirement(text) is None:
                yield _fault(table, row, "requires", f"not a requirement: {text!r}")
        for platform in row.default_on:
            if platform not in PLATFORMS:
                yield _fault(table, row, "default_on", f"no platform {platform!r}")
            if (row.package, row.version, platform) in defaults:
                yield _fault(table, row, "default_on", f"a second default build on {platform}")
            defaults.add((row.package, row.version, platform))


def _specifier(table: Table, row: Any, key: str, text: str) -> Iterator[Fault]:
    for part in text.split(" | "):  # alternatives by Python, 'specifier ; marker'
        specifiers = find_specifiers(part.partition(";")[0])
        if specifiers is None:
            yield _fault(table, row, key, f"not a specifier: {part!r}")
        elif is_empty(specifiers):
            yield _fault(table, row, key, f"nothing meets {part!r}")


def companions_fit_a_release(matrix: Matrix, tables: Sequence[Table]) -> Iterator[Fault]:
    """Requirements parse, an exact pin names one release, and that release has builds."""
    for table, row in _rows(tables, "companions"):
        text = row.requirement
        bare = not text[:1].isalpha()  # a specifier on the framework; else a requirement of the framework's
        specifiers = find_specifiers(text) if bare else getattr(find_requirement(text), "specifier", None)
        if specifiers is None:
            yield _fault(table, row, "requirement", f"not a requirement: {text!r}")
            continue
        if is_empty(specifiers):
            yield _fault(table, row, "requirement", f"nothing meets {text!r}")
        if row.relation == "exact" and not text.startswith("=="):
            yield _fault(table, row, "requirement", f"an exact pin is written ==, not {text!r}")
        told = row.framework_version
        if told is None or row.yanked or row.relation not in ("exact", "range"):
            continue
        if bare and not specifiers.contains(Version(told), prereleases=True):
            yield _fault(table, row, "framework_version", f"{told} doesn't meet {text}")
        if row.relation == "exact" and not matrix.builds_of(row.framework, public(told)):
            yield _fault(table, row, "framework_version", f"no build of {row.framework} {told}")


def pins_agree(matrix: Matrix, tables: Sequence[Table]) -> Iterator[Fault]:
    """Pins belong to a release, their version meets the requirement, and one metapackage pins the same everywhere."""
    through: dict[tuple[str, str, str], str] = {}
    for table, row in _rows(tables, "pins"):
        if not matrix.builds_of(row.framework, row.version):
            yield _fault(table, row, "version", f"no build of {row.framework} {row.version}")
        requirement = find_requirement(row.package + row.requirement)
        if requirement is None:
            yield _fault(table, row, "requirement", f"not a requirement: {row.requirement!r}")
            continue
        if row.pinned and not requirement.specifier.contains(row.pinned, prereleases=True):
            yield _fault(table, row, "pinned", f"{row.pinned} doesn't meet {row.requirement}")
        if row.via != "direct":
            key = row.via, row.package, row.machine
            if through.setdefault(key, row.requirement) != row.requirement:
                yield _fault(table, row, "requirement", f"{row.via} pins {through[key]} elsewhere")


def images_are_named_as_the_catalogue_does(matrix: Matrix, tables: Sequence[Table]) -> Iterator[Fault]:
    """References and monthly tags parse, and the CUDA in an image exists."""
    for table, row in _rows(tables, "framework_images"):
        if not REFERENCE.fullmatch(row.reference):
            yield _fault(table, row, "reference", "not an image reference of NVIDIA's catalogue")
        elif not (MONTHLY.fullmatch(tag(row.reference)) or NIGHTLY.fullmatch(tag(row.reference))):
            yield _fault(table, row, "reference", f"not a monthly tag: {tag(row.reference)}")
        if _no_cuda(matrix, row.cuda):
            yield _fault(table, row, "cuda", f"no CUDA {row.cuda}")
        for branch in row.driver_branches:
            if not re.fullmatch(r"\d{3}(\.\d+)*", branch):
                yield _fault(table, row, "driver_branches", f"not a driver branch: {branch!r}")
    for table, row in _rows(tables, "cuda_images"):
        if _no_cuda(matrix, row.cuda):
            yield _fault(table, row, "cuda", f"no CUDA {row.cuda}")
        if not row.tag.startswith(f"{row.cuda}-") or not row.tag.endswith(row.distro) or row.flavour not in row.tag:
            yield _fault(table, row, "tag", f"is not {row.cuda}, {row.flavour}, {row.distro}")
        if row.has_cudnn != ("-cudnn" in row.tag) or (row.cudnn and not row.has_cudnn):
            yield _fault(table, row, "has_cudnn", "tag and cuDNN disagree")


def cudnn_spans_aren_t_empty(matrix: Matrix, tables: Sequence[Table]) -> Iterator[Fault]:
    """The lowest compute capability of a cuDNN line is not above its highest; a wheel names its package."""
    for table, row in _rows(tables, "cudnn"):
        low, high = versions.find(row.min_capability), versions.find(row.max_capability)
        if low and high and low > high:
            yield _fault(table, row, "max_capability", f"{row.max_capability} is below {row.min_capability}")
        if row.record == "wheel" and not row.package:
            yield _fault(table, row, "package", "a wheel without its package")


def names_lead_to_rows(matrix: Matrix, tables: Sequence[Table]) -> Iterator[Fault]:
    """Causes of packages are of the vocabulary, and packages that a row names are known."""
    causes = {row.key for row in matrix.causes}
    kinds = {row.name for row in matrix.package_kinds}
    for table, row in _rows(tables, "packages"):
        for cause in row.causes:
            if cause not in causes:
                yield _fault(table, row, "causes", f"no cause {cause!r}")
        for key in ("of", "replaced_by"):
            name = getattr(row, key).partition("[")[0]
            if name and name not in kinds and name not in matrix.packages():
                yield _fault(table, row, key, f"no package {name!r}")
    for table, row in _rows(tables, "installs"):
        yield from _specifier(table, row, "versions", row.versions)


LAWS = (
    files_hold_their_own,
    builds_fit_their_cuda,
    builds_can_be_installed,
    companions_fit_a_release,
    pins_agree,
    images_are_named_as_the_catalogue_does,
    cudnn_spans_aren_t_empty,
    names_lead_to_rows,
)
