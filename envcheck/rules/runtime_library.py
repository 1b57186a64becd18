"""FRM: whether a framework finds the CUDA libraries, plugins and packages that it takes from outside its wheel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from envcheck import versions
from envcheck.matrix.specifiers import bound_on
from envcheck.model.fact import UnknownFact
from envcheck.model.finding import Evidence, Problem
from envcheck.rules.build import (
    WISHES,
    Built,
    label,
    library_major,
    major_of,
    meets,
    whole,
    with_cause,
)
from envcheck.rules.known import heard
from envcheck.rules.presence import gpu_is_meant, has_working_gpu, level_of_wish
from envcheck.rules.rule import rule

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot
    from envcheck.model.stack import Package

JAXLIB = "jax-cpu-jaxlib"  # the cause of the CPU build that only lacks a plugin


@rule("FRM120", "cpu-jaxlib", "error", cause="jax-cpu-jaxlib", rank=31)
def cpu_runtime_library(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The framework's runtime library is the CPU build, and no CUDA plugin is installed.

    Why: it falls back to the CPU ('No GPU/TPU found, falling back to CPU').
    How it is decided: no CUDA in its version, no plugin in a whole package list, and a GPU is asked for (error) or a
    working one is here (warning).
    Fix: install the extra that brings the plugin.
    Sources: JAX installation guide; matrices/builds.
    """
    for framework in with_cause(snap, matrix, JAXLIB):
        if framework.cuda or framework.accelerator == "cuda" or _plugins(snap, matrix, framework.kind.of):
            continue
        if not gpu_is_meant(snap):
            return
        if not whole(snap):
            raise UnknownFact("whether a CUDA plugin is installed: the package list is a fragment")
        yield Problem(
            f"{framework.label} is the CPU build and no CUDA plugin is installed, although a GPU is "
            + ("asked for" if snap.wants.gpu else "here"),
            fix=(f'pip install -U "{framework.kind.gpu_requirement}"',),
            subject=framework.package.name,
            severity=level_of_wish(snap),
            evidence=(
                Evidence("CUDA plugin", "none", snap.stack.packages.source, "found"),
                Evidence("CUDA plugin", framework.kind.gpu_requirement, "matrices/packages.toml", "needed"),
            ),
        )


def _plugins(snap: Snapshot, matrix: Matrix, of: str) -> list[Package]:
    return [
        package
        for package in snap.stack.packages.get()
        if (kind := matrix.package_kind(package.name)) is not None and kind.role == "plugin" and kind.of == of
    ]


@rule("FRM121", "plugin-version-mismatch", "error", cause="jax-plugin-version-mismatch", rank=33)
def plugin_version_mismatch(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The framework, its runtime library and its CUDA plugin are of releases that don't belong together.

    Why: a plugin of another release than the library isn't used; a library outside the framework's range is refused.
    How it is decided: the plugin's release must be the library's; the library's must be in the range of the metadata.
    Fix: install all of one release together.
    Sources: jaxlib plugin_support; wheel metadata (matrices/builds).
    """
    for framework in with_cause(snap, matrix, "jax-plugin-version-mismatch"):
        name = framework.package.name
        parts = [
            package
            for package in snap.stack.packages.get()
            if (kind := matrix.package_kind(package.name)) and kind.of == name and kind.role in ("framework", "plugin")
        ]
        library = next((p for p in parts if _role(matrix, p) == "framework"), None)
        if library is None or not library.version:
            continue
        wrong = [
            p
            for p in parts
            if _role(matrix, p) == "plugin" and p.version and _release(p.version) != _release(library.version)
        ]
        rows = matrix.builds_of(name, framework.package.version or "")
        asked = ((text, bound_on(library.name, text)) for row in rows for text in row.requires)
        bound, wanted = next(((text, told) for text, told in asked if told is not None), ("", ""))
        outside = meets(library.version, wanted) is False
        if not wrong and not outside:
            continue
        other = wrong[0] if wrong else framework.package
        extra = framework.kind.gpu_requirement.replace("{version}", framework.package.version or "")
        yield Problem(
            f"{label(library)} and {label(other)} don't belong together",
            fix=(f'pip install -U "{extra}"',),
            subject=library.name,
            evidence=(
                Evidence(library.name, library.version, library.source, "found"),
                Evidence(other.name, other.version or "", other.source, "found"),
                *([Evidence(library.name, bound, f"matrices/builds/{name}.toml", "needed")] if outside else []),
            ),
        )


def _role(matrix: Matrix, package: Package) -> str:
    kind = matrix.package_kind(package.name)
    return kind.role if kind else ""


def _release(version: str) -> tuple[int, ...]:
    found = versions.find(version)
    return found.release if found else ()


@rule("FRM130", "gpu-package-removed", "error", cause="tf-gpu-package-removed", rank=29)
def gpu_package_removed(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """A GPU package that no longer exists is asked for.

    Why: its last releases on the index are placeholders whose installation fails on purpose.
    How it is decided: a file asks for an obsolete package without a pin, or for a release that the matrix doesn't have.
    An installed old release is left alone.
    Fix: the package that replaced it.
    Sources: the project's own notice on the package index (matrices/packages.toml).
    """
    for package in snap.stack.packages.get():
        kind = matrix.package_kind(package.name)
        if kind is None or kind.role != "obsolete" or not kind.replaced_by or snap.origin.kind not in WISHES:
            continue
        if package.pinned and package.version and matrix.build(package.name, package.version):
            continue
        yield Problem(
            f"{package.name} was removed: {kind.replaced_by} is meant",
            fix=(f"write {kind.replaced_by} instead of {package.name}",),
            subject=package.name,
            evidence=(Evidence("requirement", label(package), package.source, "found"),),
        )


def _available_majors(snap: Snapshot) -> dict[int, tuple[str, str]]:
    """CUDA majors whose libraries are here: major -> (what, source); empty where none is known."""
    found: dict[int, tuple[str, str]] = {}
    if snap.stack.cuda.find():
        text = str(snap.stack.cuda.find())
        found[major_of(text) or 0] = (f"CUDA {text}", snap.stack.cuda.source)
    for toolkit in snap.stack.toolkits.find() or ():
        found.setdefault(major_of(toolkit.version) or 0, (f"CUDA toolkit {toolkit.version}", toolkit.source))
    for package in snap.stack.packages.find() or ():
        major = library_major(package)
        if major is not None:
            found.setdefault(major, (package.name, package.source))
    for library in snap.stack.libraries.find() or ():
        if library.soname.startswith("libcudart.so."):
            found.setdefault(major_of(library.soname.rpartition(".so.")[2]) or 0, (library.path, library.source))
    found.pop(0, None)
    return found


def _needs_system_cuda(snap: Snapshot, matrix: Matrix, cause: str) -> Iterator[tuple[Built, int]]:
    for framework in with_cause(snap, matrix, cause):
        major = major_of(framework.cuda)
        if framework.kind.brings_cuda is False and major is not None and framework.accelerator == "cuda":
            yield framework, major


def _other_major(snap: Snapshot, framework: Built, major: int, cause: str, matrix: Matrix) -> Problem:
    have = _available_majors(snap)
    what, source = have[max(have)]
    failed = bool(heard(snap, matrix, cause))
    extra = framework.kind.gpu_requirement.replace("{version}", framework.package.version or "")
    return Problem(
        f"{framework.label} is built for CUDA {framework.cuda}, and {what} is here",
        fix=(
            f"install the CUDA {major} libraries, or a build of {framework.package.name} for CUDA {max(have)}",
            *([f"pip install '{extra}'"] if "[" in extra else []),
        ),
        subject=framework.package.name,
        severity="error" if failed or snap.wants.gpu else "warning",
        evidence=(
            Evidence("CUDA libraries", what, source, "found"),
            Evidence("CUDA libraries", f"{major}.x", framework.source, "needed"),
        ),
    )


@rule(
    "FRM131",
    "tf-cuda-version-mismatch",
    "error",
    cause="tf-cuda-version-mismatch",
    rank=32,
    explains=("FRM132", "CUD110"),
)
def system_cuda_mismatch(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The framework takes CUDA from the system, and the system's is of another major.

    Why: the libraries' names hold the major (libcudart.so.11.0): the other major's are never found.
    How it is decided: the CUDA of the project's own tested-build table against every CUDA that is here. A release with
    an extra that brings its own CUDA wheels isn't bound to the system's.
    Fix: the CUDA of that major, or the release of the framework for this one.
    Sources: the framework's tested-build table (matrices/builds).
    """
    for framework, major in _needs_system_cuda(snap, matrix, "tf-cuda-version-mismatch"):
        if framework.row is not None and any(line.startswith("nvidia-cuda-runtime") for line in framework.row.requires):
            continue  # this release takes its libraries from pip: another toolkit beside them is no fault
        have = _available_majors(snap)
        if not have:
            raise UnknownFact("CUDA libraries: none was told")
        if major not in have:
            yield _other_major(snap, framework, major, "tf-cuda-version-mismatch", matrix)


@rule("FRM132", "tf-cuda-libs-missing", "warning", cause="tf-cuda-libs-missing", rank=35, explains=("CUD110",))
def system_cuda_missing(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The framework takes CUDA from outside its wheel, and there is none.

    Why: 'Cannot dlopen some GPU libraries': it runs on the CPU.
    How it is decided: a GPU works, the libraries and toolkits of the environment were listed, and none is CUDA's.
    Fix: the extra that brings them, or the system's packages.
    Sources: the framework's installation guide (matrices/packages.toml).
    """
    for framework, major in _needs_system_cuda(snap, matrix, "tf-cuda-libs-missing"):
        if not has_working_gpu(snap):
            return
        snap.stack.libraries.get()
        snap.stack.toolkits.get()
        if not whole(snap) or _available_majors(snap):
            continue
        extra = framework.kind.gpu_requirement.replace("{version}", framework.package.version or "")
        yield Problem(
            f"{framework.label} needs the CUDA {major} libraries, and there are none",
            fix=(f'pip install "{extra}"',) if extra else (f"install the CUDA {major} libraries",),
            subject=framework.package.name,
            evidence=(
                Evidence("CUDA libraries", "none", snap.stack.libraries.source, "found"),
                Evidence("CUDA libraries", f"{major}.x", framework.source, "needed"),
            ),
        )


@rule("FRM140", "ort-cuda-major-mismatch", "error", cause="ort-cuda-major-mismatch", rank=31)
def provider_cuda_mismatch(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The runtime's CUDA provider was built for another CUDA major than the one that is here.

    Why: the provider's library can't be loaded, and it falls back to the CPU.
    How it is decided: the CUDA of the release against every CUDA that is here; an error where a log shows it.
    Fix: the release (or index) for this CUDA, or the libraries of the other major.
    Sources: ONNX Runtime, CUDA execution provider requirements (matrices/builds).
    """
    for framework, major in _needs_system_cuda(snap, matrix, "ort-cuda-major-mismatch"):
        have = _available_majors(snap)
        if not have:
            raise UnknownFact("CUDA libraries: none was told")
        if major not in have:
            yield _other_major(snap, framework, major, "ort-cuda-major-mismatch", matrix)
