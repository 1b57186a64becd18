"""FRM: whether frameworks, their companions, plugins and extensions are the builds that belong together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Optional

from envcheck import versions
from envcheck.matrix.specifiers import allows, bound_on
from envcheck.model.fact import UnknownFact
from envcheck.model.finding import Evidence, Problem, Severity
from envcheck.rules.build import (
    WISHES,
    Built,
    frameworks,
    installed,
    label,
    library_major,
    major_of,
    platform,
    whole,
    with_cause,
)
from envcheck.rules.known import bad_rows, heard
from envcheck.rules.presence import gpu_is_meant, has_working_gpu, nvidia_gpus, only_a_log_tells
from envcheck.rules.remedy import framework_fix, install_line
from envcheck.rules.rule import rule

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot
    from envcheck.model.stack import Package

JAXLIB = "jax-cpu-jaxlib"  # the cause that has its own rule
DEFAULT = "linux-x86_64"
NO_GPU = ("driver-not-loaded", "driver-too-old-for-cuda", "no-nvidia-gpu")  # what a log says of a GPU that isn't there


def _level(snap: Snapshot) -> Optional[Severity]:
    """An error where a GPU is asked for; else a warning: it runs, on the CPU."""
    return "error" if snap.wants.gpu else "warning"


@rule("FRM101", "cpu-only-build", "error", cause="cpu-only-build", rank=28)
def cpu_only_build(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """A CPU-only build is installed where a GPU build is meant.

    Why: it never sees a GPU ('Torch not compiled with CUDA enabled'), and often nobody notices.
    How it is decided: the build is CPU-only by its version, its files or the matrix, and a GPU is asked for, or an
    extension that was built for its CUDA build is here (error), or a working GPU is here (warning). On a machine
    without a GPU the CPU build is right.
    Fix: the GPU build of the same release that this driver and GPU run.
    Sources: wheel metadata and version files; matrices/builds.
    """
    for framework in frameworks(snap, matrix):
        if framework.accelerator != "cpu" or JAXLIB in framework.kind.causes or snap.machine.jetson.find():
            continue
        if any(kind.role == "plugin" and kind.of == framework.package.name for kind in matrix.package_kinds):
            continue  # its GPU code is a plugin: that has a rule of its own
        if snap.origin.kind in WISHES and not snap.wants.gpu and not _cpu_by_default(framework.package):
            continue
        extension = _built_for_cuda(snap, framework)
        if extension is None and not gpu_is_meant(snap):
            return
        fix = framework_fix(snap, matrix, framework, same_release=True) or framework_fix(snap, matrix, framework)
        yield Problem(
            f"{framework.label} is a CPU-only build, and "
            + (
                f"{extension.name} was built for its CUDA build"
                if extension is not None
                else "a GPU is asked for"
                if snap.wants.gpu
                else "a GPU is here that it will never use"
            ),
            fix=(fix,) if fix else (),
            subject=framework.package.name,
            severity=_level(snap),
            evidence=(
                Evidence(
                    f"build of {framework.label}", "CPU only", framework.package.source or framework.source, "found"
                ),
                Evidence(
                    "build",
                    "one for CUDA",
                    extension.source if extension is not None else snap.wants.source or snap.machine.gpus.source,
                    "needed",
                ),
            ),
        )


def _built_for_cuda(snap: Snapshot, framework: Built) -> Optional[Package]:
    """An extension whose metadata or message binds it to a CUDA build of this framework."""
    for package in snap.stack.packages.get():
        for text in package.requires:
            if bound_on(framework.package.name, text) is not None and "+cu" in text:
                return package
    return None


def _cpu_by_default(package: Package) -> bool:
    """Is the CPU build what the default index gives on this platform, and not what the file asks for?"""
    return package.variant == "cpu" and "+cpu" not in (package.version or "") and "cpu" not in package.channel


@rule("FRM102", "duplicate-install", "warning", cause="duplicate-torch-install", rank=45)
def duplicate_install(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """Two installs of one framework are in one environment.

    Why: the first on sys.path is imported, and its neighbours may belong to the other.
    How it is decided: two distributions of one name with different releases or in different folders.
    Fix: uninstall until pip says that it is gone, then install once.
    Sources: PEP 376 (one distribution a name).
    """
    seen: dict[str, Package] = {}
    for framework in frameworks(snap, matrix):
        package = framework.package
        other = seen.setdefault(package.name, package)
        if other is package or not package.version or not other.version:
            continue
        same = versions.find(package.version) == versions.find(other.version)
        if same and (package.location == other.location or not package.location or not other.location):
            continue
        yield Problem(
            f"{package.name} is installed twice: {other.version} and {package.version}",
            fix=(f"pip uninstall -y {package.name}   (again, until it isn't installed), then install it once",),
            subject=package.name,
            evidence=tuple(Evidence(package.name, p.version or "", p.source, "found") for p in (other, package)),
        )


@rule("FRM103", "rocm-build-on-nvidia", "error", cause="rocm-build-on-nvidia", rank=30)
def rocm_build_on_nvidia(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """A ROCm build is on a machine whose GPUs are NVIDIA's.

    Why: it drives AMD GPUs only.
    How it is decided: the build's ROCm tag or HIP version; NVIDIA GPUs and no AMD GPU here.
    Fix: the CUDA build of the same release.
    Sources: wheel metadata and version files.
    """
    for framework in frameworks(snap, matrix):
        if framework.accelerator != "rocm":
            continue
        gpus = snap.machine.gpus.get()
        if any(gpu.vendor == "amd" for gpu in gpus) or not nvidia_gpus(snap):
            continue
        fix = framework_fix(snap, matrix, framework)
        yield Problem(
            f"{framework.label} is a ROCm build, and the GPU is NVIDIA's {nvidia_gpus(snap)[0].name}",
            fix=(fix,) if fix else (),
            subject=framework.package.name,
            evidence=(
                Evidence(f"build of {framework.label}", "ROCm", framework.package.source, "found"),
                Evidence("build", "one for CUDA", snap.machine.gpus.source, "needed"),
            ),
        )


@rule("FRM104", "cuda-build-on-amd", "note", cause="cuda-build-on-amd", rank=47, explains=("GPU101",))
def cuda_build_on_amd(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """A CUDA build is on a machine whose only GPUs are AMD's.

    Why: it sees no GPU and runs on the CPU.
    How it is decided: AMD GPUs and no NVIDIA GPU here. A note, as many processors carry a small AMD GPU that nobody
    means; an error where a GPU is asked for.
    Fix: the ROCm build, where the AMD GPU is supported.
    Sources: wheel metadata and version files.
    """
    for framework in frameworks(snap, matrix):
        # A build that complains of the NVIDIA driver's age was made for CUDA, whatever else is told of it.
        said = framework.accelerator is None and heard(snap, matrix, "driver-too-old-for-cuda")
        if framework.accelerator != "cuda" and not said:
            continue
        gpus = snap.machine.gpus.get()
        if any(gpu.vendor == "nvidia" for gpu in gpus) or not any(gpu.vendor == "amd" for gpu in gpus):
            return
        amd = next(gpu for gpu in gpus if gpu.vendor == "amd")
        yield Problem(
            f"{framework.label} is a CUDA build, and the only GPU is AMD's {amd.name}",
            fix=(f"the ROCm build of {framework.package.name}, if AMD supports this GPU",),
            subject=framework.package.name,
            severity="error" if snap.wants.gpu or any(heard(snap, matrix, cause) for cause in NO_GPU) else None,
            evidence=(
                Evidence(
                    f"build of {framework.label}",
                    f"CUDA {framework.cuda or ''}".strip(),
                    framework.source or framework.package.source,
                    "found",
                ),
                Evidence("GPU", amd.name, snap.machine.gpus.source),
            ),
        )


def _meets(version: Optional[str], specifier: str) -> Optional[bool]:
    """None where either can't be read; a vendor's or nightly pre-release of the series is let through as unknown."""
    found = versions.find(version)
    if found is None or not specifier or found.is_prerelease:
        return None
    return allows(specifier, versions.parse(found.public))


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
            if wanted and _meets(framework.version, wanted) is False:
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
            severity=_level(snap),
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
        outside = _meets(library.version, wanted) is False
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


@rule("FRM141", "cpu-gpu-packages-conflict", "warning", cause="ort-cpu-gpu-packages-conflict", rank=28)
def cpu_gpu_packages_conflict(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The CPU and the GPU package of one runtime are both installed.

    Why: both write the same module; the later one wins, and removing one breaks the other.
    How it is decided: a CPU package and its GPU twin in one environment.
    Fix: uninstall both, then install the GPU package alone.
    Sources: ONNX Runtime installation guide; RECORD files of both wheels.
    """
    for package in snap.stack.packages.get():
        kind = matrix.package_kind(package.name)
        if kind is None or kind.role != "cpu-twin" or "ort-cpu-gpu-packages-conflict" not in kind.causes:
            continue
        for twin in installed(snap, kind.of):
            yield Problem(
                f"{label(package)} and {label(twin)} are both installed, and write the same module",
                fix=(
                    f"pip uninstall -y {package.name} {twin.name} && pip install {twin.name}"
                    + (f"=={twin.version}" if twin.version else ""),
                ),
                subject=package.name,
                evidence=(
                    Evidence(package.name, package.version or "installed", package.source, "found"),
                    Evidence(twin.name, twin.version or "installed", twin.source, "found"),
                ),
            )


@rule("FRM150", "gpu-binary-missing", "error", cause="bitsandbytes-cuda-binary-missing", rank=36)
def gpu_binary_missing(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """An extension has no binary for this CUDA or GPU.

    Why: its wheel holds one library for each CUDA; for another it falls back to the CPU, or stops.
    How it is decided: by its own message in a log.
    Fix: a newer release, or a CUDA that it has a binary for.
    Sources: bitsandbytes installation guide.
    """
    only_a_log_tells(snap)
    return ()


@rule("FRM160", "numpy2-abi", "error", cause="numpy2-abi", rank=32)
def numpy2_abi(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """A release built against NumPy 1 runs with NumPy 2.

    Why: 'A module that was compiled using NumPy 1.x cannot be run in NumPy 2': conversions to arrays fail.
    How it is decided: the matrix's rows of releases known to be built against NumPy 1.
    Fix: numpy<2, or a newer release of the framework.
    Sources: matrices/known_bad.toml, a source a row.
    """
    yield from bad_rows(snap, matrix, "numpy2-abi")
