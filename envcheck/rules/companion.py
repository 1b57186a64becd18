"""FRM: whether companions and extensions were released for the framework that is here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from envcheck import versions
from envcheck.matrix.specifiers import bound_on
from envcheck.model.finding import Evidence, Problem
from envcheck.rules.build import (
    frameworks,
    installed,
    label,
    major_of,
    meets,
    platform,
)
from envcheck.rules.remedy import install_line
from envcheck.rules.rule import rule

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot
    from envcheck.model.stack import Package

DEFAULT = "linux-x86_64"


def _bound_elsewhere(snap: Snapshot, matrix: Matrix, role: str) -> Iterator[tuple[Package, Package, str, str]]:
    """(package, framework, wanted, source) of those whose release is bound to another release of their framework."""
    for package in snap.stack.packages.get():
        kind = matrix.package_kind(package.name)
        if kind is None or kind.role != role or not package.version or package.installer == "conda":
            continue
        for framework in installed(snap, kind.of):
            bounds = (bound_on(kind.of, text) for text in package.requires)
            told = [bound for bound in bounds if bound is not None]
            rows = [r for r in matrix.companions_of(package.name, package.version) if r.framework == kind.of]
            exact = [row for row in rows if row.relation == "exact" and row.requirement]
            wanted, source = "", ""
            if told:
                wanted, source = told[0], package.source
            elif len(exact) == 1:
                wanted, source = exact[0].requirement, f"matrices/companions/{package.name}.toml: {exact[0].source}"
            if wanted and meets(framework.version, wanted) is False:
                yield package, framework, wanted, source


@rule("FRM110", "companion-mismatch", "error", cause="torch-torchvision-mismatch", rank=33)
def companion_mismatch(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """A companion (torchvision, torchaudio) doesn't belong to this release or build of its framework.

    Why: its operators are compiled against one release and one CUDA ('operator torchvision::nms does not exist').
    How it is decided: the release that its metadata pins; and its build (CPU, CUDA major) against the framework's. A
    companion without a tag is the default index's build.
    Fix: the companion that came out with the framework, from the same index.
    Sources: wheel metadata (matrices/companions).
    """
    for package, framework, wanted, source in _bound_elsewhere(snap, matrix, "companion"):
        row = matrix.build(framework.name, framework.version or "", framework.variant)
        right = matrix.companion_for(package.name, framework.version or "", framework.name)
        fix = (install_line(matrix, row, [package.name]),) if row and right else ()
        if right and not fix:
            fix = (f"pip install {package.name}=={right.version}",)
        yield Problem(
            f"{label(package)} belongs to {framework.name} {wanted.replace('==', '')}, and {label(framework)} is here",
            fix=fix,
            subject=package.name,
            evidence=(
                Evidence(framework.name, framework.version or "", framework.source, "found"),
                Evidence(framework.name, wanted, source, "needed"),
            ),
        )
    yield from _other_build(snap, matrix)


def _other_build(snap: Snapshot, matrix: Matrix) -> Iterator[Problem]:
    for framework in frameworks(snap, matrix):
        tag = framework.package.variant or versions.local_variant(framework.package.version)
        if not tag or not framework.package.version or framework.package.installer == "conda":
            continue
        for package in snap.stack.packages.get():
            kind = matrix.package_kind(package.name)
            if kind is None or kind.role != "companion" or kind.of != framework.package.name or not package.version:
                continue
            if package.installer == "conda" or platform(snap) not in (None, DEFAULT):
                continue
            theirs = package.variant or versions.local_variant(package.version)
            default = matrix.build(framework.package.name, framework.package.version.partition("+")[0])
            theirs = theirs or (default.variant if default else None)
            if not theirs or _same_build(tag, theirs):
                continue
            row = framework.row or matrix.build(framework.package.name, framework.package.version, tag)
            yield Problem(
                f"{label(package)} is the {theirs} build, and {framework.label} is the {tag} one",
                fix=(install_line(matrix, row, [package.name]),) if row else (),
                subject=package.name,
                evidence=(
                    Evidence(f"build of {package.name}", theirs, package.source, "found"),
                    Evidence(f"build of {package.name}", tag, framework.package.source, "needed"),
                ),
            )


def _same_build(left: str, right: str) -> bool:
    """CPU with CPU, CUDA with CUDA of its major; another accelerator isn't judged."""
    a, b = versions.cuda_from_tag(left), versions.cuda_from_tag(right)
    if a and b:
        return major_of(a) == major_of(b)
    return not ({left, right} & {"cpu"} and (a or b))


@rule("FRM111", "extension-for-another-release", "error", cause="extension-abi-mismatch", rank=34)
def extension_for_another_release(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """A compiled extension was released for another release of its framework.

    Why: its binary calls C++ functions of that release: importing it stops with 'undefined symbol', or it does without
    its kernels.
    How it is decided: the exact pin in its metadata against the installed framework. What its files say is LIB110.
    Fix: the extension's release for the installed framework, or the framework's release that it pins.
    Sources: wheel metadata (matrices/companions).
    """
    if snap.stack.openings.known and any(p.fault == "symbol" for p in snap.stack.openings.find() or ()):
        return  # read from the files: LIB110 says it better
    for package, framework, wanted, source in _bound_elsewhere(snap, matrix, "extension"):
        right = matrix.companion_for(package.name, framework.version or "", framework.name)
        first = f"pip install {package.name}=={right.version}" if right else ""
        second = f"pip install '{framework.name}{wanted}'"
        yield Problem(
            f"{label(package)} was built for {framework.name} {wanted.replace('==', '')}; {label(framework)} is here",
            fix=tuple(filter(None, (first, second))),
            subject=package.name,
            evidence=(
                Evidence(framework.name, framework.version or "", framework.source, "found"),
                Evidence(framework.name, wanted, source, "needed"),
            ),
        )
