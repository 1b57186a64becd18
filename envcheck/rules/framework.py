"""FRM: whether the frameworks that are here are the builds that are meant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Optional

from envcheck import versions
from envcheck.matrix.specifiers import bound_on
from envcheck.model.finding import Evidence, Problem
from envcheck.rules.build import (
    WISHES,
    Built,
    frameworks,
    installed,
    label,
)
from envcheck.rules.known import bad_rows, heard
from envcheck.rules.presence import gpu_is_meant, level_of_wish, nvidia_gpus, only_a_log_tells
from envcheck.rules.remedy import framework_fix
from envcheck.rules.rule import rule

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot
    from envcheck.model.stack import Package

JAXLIB = "jax-cpu-jaxlib"  # the cause that has its own rule
NO_GPU = ("driver-not-loaded", "driver-too-old-for-cuda", "no-nvidia-gpu")  # what a log says of a GPU that isn't there


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
            severity=level_of_wish(snap),
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
