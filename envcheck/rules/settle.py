"""Which cause a symptom has that only suggests some: decided by the other facts, else the likeliest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

import msgspec

from envcheck import versions
from envcheck.rules.kernels import cause_of

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.matrix.rows import Symptom
    from envcheck.model.snapshot import Event, Snapshot


WSL_NO_GPU, WSL_SHADOWED = "wsl-no-gpu", "wsl-libcuda-shadowed"


def settle(row: Symptom, event: Event, snap: Snapshot, matrix: Matrix) -> Optional[str]:
    """One of `row.suggests`; the first where no fact decides; None where the facts speak against all."""
    first, offered = row.suggests[0], set(row.suggests)
    if offered >= {WSL_NO_GPU, WSL_SHADOWED}:
        return _in_wsl(offered, snap)
    if first == "cpu-only-build":
        return first if _cpu_build(snap) else None
    if "gpu-too-new-for-build" in offered:
        return _kernels(event, snap, matrix) or first
    if "cuda-compat-shadows-driver" in offered:
        return "cuda-compat-shadows-driver" if _compat(snap) else first
    if "gpu-not-passed-to-container" in offered or "cuda-visible-devices-wrong" in offered:
        return _no_gpu(offered, snap) or first
    if "cudnn-shadowed" in offered and event.values.get("built"):
        return _cudnn_runtime(event, snap)
    if offered >= {"cudnn-missing", "cudnn-major-mismatch"}:
        return _cudnn_missing(event, snap, matrix) or first
    if "tf-cuda-version-mismatch" in offered:
        return _tensorflow(snap) or first
    if "container-runtime-snap-docker" in offered:
        engine = snap.machine.engine.find()
        if engine is not None and engine.snap:
            return "container-runtime-snap-docker"
        there = "container-runtime-misconfigured" in offered and snap.machine.toolkit.find()
        return "container-runtime-misconfigured" if there else first
    if "ort-cpu-gpu-packages-conflict" in offered:
        names = {package.name for package in snap.stack.packages.find() or ()}
        return "cpu-only-build" if "onnxruntime" in names and "onnxruntime-gpu" not in names else first
    if "nvcc-torch-cuda-mismatch" in offered:
        capability = _capability(event.values.get("sm", ""))
        known = matrix.capability(capability) if capability else None
        return "gpu-too-old-for-build" if known is not None and known.last_cuda else "ptxas-too-old-for-gpu"
    if first == "mig-one-instance-per-process":
        return first if any(len(gpu.mig_devices) > 1 for gpu in snap.machine.gpus.find() or ()) else None
    if first == "jetson-no-nvml":
        return first if snap.machine.jetson.find() else None
    if first == "jetson-generic-wheel":
        own = any("nv" in (package.version or "") for package in snap.stack.packages.find() or ())
        return first if snap.machine.jetson.find() and not own else None
    if first == "rocm-build-on-nvidia":
        return first if snap.machine.driver.find() or snap.machine.gpus.find() else None
    return first


def in_wsl(row: Symptom) -> Symptom:
    """The row as it is meant in WSL, where no Linux driver belongs: what finds none lacks WSL's own."""
    if row.proves == "driver-not-loaded":
        return msgspec.structs.replace(
            row, proves="", suggests=(WSL_NO_GPU, WSL_SHADOWED, "driver-not-loaded"), rank=15
        )
    if {"driver-not-loaded", "no-nvidia-gpu"} & set(row.suggests):
        return msgspec.structs.replace(row, suggests=(*row.suggests, WSL_NO_GPU, WSL_SHADOWED))
    return row


def _in_wsl(offered: set[str], snap: Snapshot) -> str:
    container = snap.stack.image.find() or snap.machine.container.find()
    if container and "gpu-not-passed-to-container" in offered and not snap.wants.gpus_requested:
        return "gpu-not-passed-to-container"
    if (
        "cuda-visible-devices-wrong" in offered
        and (snap.stack.env.find() or {}).get("CUDA_VISIBLE_DEVICES") is not None
    ):
        return "cuda-visible-devices-wrong"
    named = any(event.symptom == "wsl-lib-path" for event in snap.events)
    return WSL_SHADOWED if named or snap.machine.driver.find() else WSL_NO_GPU


def _cpu_build(snap: Snapshot) -> bool:
    """Is a CPU build told, and not a machine without a GPU?"""
    gpus = snap.machine.gpus
    if gpus.known and not any(gpu.vendor == "nvidia" for gpu in gpus.value or ()):
        return False
    return any(package.variant == "cpu" or package.cuda == "" for package in snap.stack.packages.find() or ())


def _capability(digits: str) -> Optional[str]:
    plain = digits.rstrip("af")
    return f"{plain[:-1]}.{plain[-1]}" if len(plain) > 1 and plain.isdigit() else None


def _kernels(event: Event, snap: Snapshot, matrix: Matrix) -> Optional[str]:
    gpus = snap.machine.gpus.find() or ()
    told = [matrix.capability_of(gpu) for gpu in gpus if gpu.vendor == "nvidia"]
    capability = _capability(event.values.get("sm", "")) or next((found for found in told if found), None)
    if snap.machine.jetson.find():
        return "gpu-arch-not-in-build"
    if capability is None:
        return None
    for package in snap.stack.packages.find() or ():
        if package.capabilities:
            return cause_of(package.capabilities, capability)
    known = matrix.capability(capability)
    return "gpu-too-old-for-build" if known is not None and known.last_cuda else "gpu-too-new-for-build"


def _compat(snap: Snapshot) -> bool:
    """Does a container, or a cuda-compat library, come into it?"""
    paths = [library.path for library in snap.stack.libraries.find() or () if library.soname.startswith("libcuda.so")]
    paths.append((snap.stack.env.find() or {}).get("LD_LIBRARY_PATH", ""))
    if any("compat" in path for path in paths):
        return True
    return bool(snap.stack.image.find() or snap.machine.container.find() or snap.stack.compat.find())


def _no_gpu(offered: set[str], snap: Snapshot) -> Optional[str]:
    gpus = snap.machine.gpus
    container = snap.stack.image.find() or snap.machine.container.find()
    visible = (snap.stack.env.find() or {}).get("CUDA_VISIBLE_DEVICES")
    mig = any(gpu.mig_enabled for gpu in gpus.find() or ()) or any(e.symptom == "mig-named" for e in snap.events)
    choices = (
        ("no-nvidia-gpu", gpus.known and not any(gpu.vendor == "nvidia" for gpu in gpus.value or ())),
        ("jetson-no-nvml", bool(snap.machine.jetson.find())),
        ("mig-one-instance-per-process", mig),
        ("cuda-visible-devices-wrong", visible is not None),
        ("gpu-not-passed-to-container", bool(container) and not snap.wants.gpus_requested),
        # A driver that is told was loaded: what doesn't find it runs elsewhere.
        ("gpu-not-passed-to-container", "driver-not-loaded" in offered and bool(snap.machine.driver.find())),
    )
    return next((cause for cause, holds in choices if holds and cause in offered), None)


def _cudnn_runtime(event: Event, snap: Snapshot) -> str:
    found, built = versions.find(event.values.get("found")), versions.find(event.values.get("built"))
    if found and built and found.major != built.major:
        return "cudnn-major-mismatch"
    there = versions.find(snap.stack.cudnn.find())
    if there and found and built and there.release[:3] >= built.release[:3] and there.release[:3] != found.release[:3]:
        return "cudnn-shadowed"
    return "cudnn-too-old"


def _cudnn_missing(event: Event, snap: Snapshot, matrix: Matrix) -> Optional[str]:
    wanted = event.values.get("major") or ("8" if "_infer.so.8" in event.text else "9" if ".so.9" in event.text else "")
    there = [snap.stack.cudnn.find()]
    there += [
        library.version or library.soname.rpartition(".")[2]
        for library in snap.stack.libraries.find() or ()
        if library.soname.startswith("libcudnn")
    ]
    for package in snap.stack.packages.find() or ():
        if package.name.startswith("nvidia-cudnn-cu"):
            there.append(package.version)
        elif (build := _build(package.name, package.version, matrix)) is not None:
            there.append(build)
    majors = {str(found.major) for text in there if (found := versions.find(text))}
    return "cudnn-major-mismatch" if wanted and majors and wanted not in majors else None


def _build(name: str, version: Optional[str], matrix: Matrix) -> Optional[str]:
    """The cuDNN that a framework's wheel brings, where its release has only one."""
    kind = matrix.package_kind(name)
    if kind is None or kind.role != "framework" or not kind.brings_cuda or not version:
        return None
    found = {row.cudnn.partition(".")[0] for row in matrix.builds_of(name, version) if row.cudnn}
    return found.pop() if len(found) == 1 else None


def _tensorflow(snap: Snapshot) -> Optional[str]:
    """Another CUDA is there than the one that TensorFlow looks for?"""
    there = snap.stack.toolkits.find() or snap.stack.cuda.find()
    wanted = any("Successfully opened" in event.text for event in snap.events)
    if there or wanted:
        only_general = all(event.symptom == "tf-cannot-dlopen" for event in snap.events)
        return None if only_general else "tf-cuda-version-mismatch"
    return None
