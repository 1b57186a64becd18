"""DRV: whether the driver is there, and whether it runs the CUDA that the stack brings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Optional

from envcheck import versions
from envcheck.model.fact import UnknownFact
from envcheck.model.finding import Evidence, Problem
from envcheck.rules.floor import (
    Runtime,
    describe,
    driver_evidence,
    floor_evidence,
    need_verdict,
    needed_driver,
    runtimes,
    with_minor,
)
from envcheck.rules.image_remedy import lists_branch
from envcheck.rules.kernels import coverage
from envcheck.rules.presence import capability_of, driver_os, in_image, names, nvidia_gpus, visible_gpus
from envcheck.rules.remedy import framework_fix
from envcheck.rules.rule import rule

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.machine import Driver, Gpu
    from envcheck.model.snapshot import Snapshot

NOT_LOADED = frozenset({"DRIVER_NOT_LOADED"})


def _driverless(snap: Snapshot) -> list[Gpu]:
    """The NVIDIA GPUs of a machine on which no driver is loaded; () where one is, or where a container hides it."""
    gpus = nvidia_gpus(snap)
    if not gpus or snap.machine.wsl.find():
        return []
    fault = snap.machine.driver_fault.find()
    if not (fault is not None and fault.code in NOT_LOADED) and snap.machine.driver.get() is not None:
        return []
    return gpus


@rule("DRV001", "driver-not-loaded", "error", cause="driver-not-loaded", rank=10)
def driver_not_loaded(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """An NVIDIA GPU is there, and no NVIDIA driver is loaded.

    Why: without the kernel module CUDA finds no device; frameworks fall back to the CPU or stop.
    How it is decided: a GPU on the PCI bus (those passed on to a virtual machine left out), and no nvidia module:
    by /proc, by NVML's DRIVER_NOT_LOADED.
    Fix: install the driver of a branch that supports the GPU, or load it (`sudo modprobe nvidia`).
    Sources: NVIDIA driver installation guide; NVML API reference (return codes).
    """
    gpus = _driverless(snap)
    if not gpus:
        return
    packages = snap.machine.driver_packages.find()
    there = bool(packages)
    first = "sudo modprobe nvidia; if that fails, `sudo dmesg | grep -i nvidia` says why"
    last = [row.last_branch for gpu in gpus if (row := matrix.capability(matrix.capability_of(gpu) or ""))]
    limits = sorted(branch for branch in last if branch)
    branch = f" of branch {limits[0]} (the last for this GPU)" if limits else ""
    needs_open = any(
        (row := matrix.capability(matrix.capability_of(gpu) or "")) and row.open_modules == "required" for gpu in gpus
    )
    install = f"install the NVIDIA driver{branch}{', with its open kernel modules' if needs_open else ''}, then reboot"
    yield Problem(
        f"{names(gpus)} is here, and no NVIDIA driver is loaded",
        fix=(first, install) if there else (install, first),
        subject=gpus[0].name,
        evidence=(
            Evidence("GPU", names(gpus), snap.machine.gpus.source, "found"),
            Evidence("NVIDIA driver", "none loaded", snap.machine.driver.source or snap.machine.driver_fault.source),
        ),
    )


@rule("DRV002", "nouveau-loaded", "error", cause="nouveau-loaded", rank=5, explains=("DRV001",))
def nouveau_loaded(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The nouveau driver holds the NVIDIA GPU.

    Why: the NVIDIA module can't take a device that nouveau has bound, and nouveau has no CUDA.
    How it is decided: nouveau among the loaded modules, or bound to the GPU, and no NVIDIA driver loaded.
    Fix: blacklist nouveau, rebuild the initramfs, reboot, with the NVIDIA driver installed.
    Sources: NVIDIA driver installation guide (disabling nouveau).
    """
    gpus = _driverless(snap)
    if not gpus:
        return
    bound = [gpu for gpu in gpus if gpu.kernel_driver == "nouveau"]
    if not bound and "nouveau" not in snap.machine.modules.get():
        return
    source = snap.machine.gpus.source if bound else snap.machine.modules.source
    yield Problem(
        f"nouveau holds {names(bound or gpus)}, so the NVIDIA driver can't",
        fix=(
            (
                "printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' | sudo tee /etc/modprobe.d/nouveau.conf; "
                "sudo update-initramfs -u (or: sudo dracut --force); install the NVIDIA driver; reboot"
            ),
        ),
        subject=gpus[0].name,
        evidence=(Evidence("kernel driver", "nouveau", source, "found"),),
    )


@rule(
    "DRV003", "secure-boot-module-rejected", "error", cause="secure-boot-module-rejected", rank=6, explains=("DRV001",)
)
def secure_boot_module_rejected(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """Secure Boot is on, and the installed NVIDIA module isn't loaded.

    Why: with Secure Boot the kernel refuses a module whose signing key isn't enrolled ('Key was rejected by service').
    How it is decided: Secure Boot on, driver packages installed, no module loaded, nouveau not in the way.
    Fix: enrol the key (mokutil --import, then confirm at boot), take the distribution's signed modules, or turn it off.
    Sources: NVIDIA driver installation guide (Secure Boot); Ubuntu wiki UEFI/SecureBoot.
    """
    gpus = _driverless(snap)
    if not gpus or not snap.machine.secure_boot.get():
        return
    packages = snap.machine.driver_packages.get()
    if not packages or "nouveau" in snap.machine.modules.get():
        return
    yield Problem(
        "Secure Boot is on and the installed NVIDIA module isn't loaded: the kernel most likely refuses its signature",
        fix=(
            "sudo modprobe nvidia   ('Key was rejected by service' confirms it)",
            (
                "sudo mokutil --import /var/lib/shim-signed/mok/MOK.der, reboot and confirm; or use the signed modules "
                "of the distribution; or turn Secure Boot off"
            ),
        ),
        subject=gpus[0].name,
        evidence=(
            Evidence("Secure Boot", "on", snap.machine.secure_boot.source, "found"),
            Evidence("driver packages", ", ".join(packages[:2]), snap.machine.driver_packages.source, "found"),
        ),
    )


@rule("DRV101", "driver-too-old-for-cuda", "error", cause="driver-too-old-for-cuda", rank=30)
def driver_too_old_for_cuda(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The driver can't run the CUDA that the framework (or the image) brings.

    Why: CUDA refuses to start: 'driver version is insufficient for CUDA runtime version'.
    How it is decided: the CUDA of the framework's build, never nvcc's. It runs natively from the driver of that
    release; by minor-version compatibility from the floor of its major (CUDA 11 and newer); by forward compatibility
    only with a cuda-compat package that lists this driver branch, on datacentre GPUs. A driver known by its branch
    alone counts as the newest of it; one known by its CUDA alone, as the oldest that reports it.
    Fix: a newer driver, or a build for an older CUDA.
    Sources: CUDA release notes (driver table, minor version compatibility); CUDA Compatibility guide.
    """
    driver = snap.machine.driver.get()
    if driver is None:
        return
    unsure = ""
    for runtime in runtimes(snap, matrix):
        if need_verdict(snap, matrix, driver, runtime.cuda) != "no":
            continue
        if _is_for_newer_gpus(snap, matrix, runtime):
            continue
        rescued = by_forward_compat(snap, matrix, driver, runtime.cuda)
        if rescued is None:
            unsure = (
                unsure or f"whether cuda-compat in the image lets driver {describe(driver)} run CUDA {runtime.cuda}"
            )
        elif not rescued:
            yield _too_old(snap, matrix, driver, runtime)
    if unsure:
        raise UnknownFact(unsure)


def _is_for_newer_gpus(snap: Snapshot, matrix: Matrix, runtime: Runtime) -> bool:
    """Has the build no code for any GPU here? Then it must be replaced anyway: that the GPU is too old is the cause."""
    gpus = visible_gpus(snap) if snap.machine.gpus.known else []
    if not gpus or runtime.framework is None:
        return False
    try:
        codes = [coverage(snap, matrix, runtime.framework, capability_of(gpu, matrix)) for gpu in gpus]
    except UnknownFact:
        return False
    needed = versions.find(needed_driver(snap, matrix, runtime.cuda))
    rows = [matrix.capability(capability_of(gpu, matrix)) for gpu in gpus]
    last = [row.last_branch if row else None for row in rows]
    stuck = needed is not None and all(branch is not None and branch < needed.major for branch in last)
    return stuck and all(code.how == "none" for code in codes)


def _too_old(snap: Snapshot, matrix: Matrix, driver: Driver, runtime: Runtime) -> Problem:
    needed = needed_driver(snap, matrix, runtime.cuda)
    fixes = [f"update the driver to {needed} or newer" if needed else "update the driver"]
    other = framework_fix(snap, matrix, runtime.framework) if runtime.framework else None
    if other:
        fixes = [f"{other}   (keeps the driver)", *fixes]
    return Problem(
        f"driver {describe(driver)} can't run CUDA {runtime.cuda} of {runtime.whose}",
        fix=tuple(fixes),
        subject=runtime.whose,
        evidence=(
            driver_evidence(driver, snap.machine.driver.source),
            Evidence(f"CUDA of {runtime.whose}", runtime.cuda, runtime.source, "found"),
            floor_evidence(snap, matrix, runtime.cuda),
        ),
    )


def by_forward_compat(snap: Snapshot, matrix: Matrix, driver: Driver, cuda: str) -> Optional[bool]:
    """Does a cuda-compat package let this driver run `cuda`? None: it isn't told whether one is there."""
    compat = snap.stack.compat
    if (compat.known and compat.value is None) or not driver.version or driver_os(snap) != "linux":
        return False
    models = [matrix.model_of(gpu) for gpu in nvidia_gpus(snap)] if snap.machine.gpus.known else []
    if any(model is not None and model.segment in ("consumer", "workstation") for model in models):
        return False
    if lists_branch(snap, matrix, driver.version):  # the image's own release notes
        return True
    if compat.value:
        brings = matrix.driver_cuda(compat.value)
        if brings is None or versions.parse(brings) < versions.parse(with_minor(cuda)):
            return False
        return bool(matrix.forward_compat(driver.version, brings))
    if not in_image(snap):
        return False  # outside images cuda-compat is rare, and the probes look for it
    return None if matrix.forward_compat(driver.version, with_minor(cuda)) else False


@rule("DRV102", "minor-version-compat-ok", "note", cause="minor-version-compat-ok", rank=60)
def minor_version_compat_ok(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The driver is older than the framework's CUDA, of the same major: it runs.

    Why: within a CUDA major any driver from the floor of the major runs newer minors. What doesn't: PTX that has to
    be compiled by the driver (code for GPUs newer than the build), and features that need the newer driver.
    How it is decided: the driver reaches the floor of the major, and its own CUDA is older than the framework's.
    Fix: none needed.
    Sources: CUDA release notes; CUDA Compatibility guide, minor version compatibility.
    """
    driver = snap.machine.driver.get()
    if driver is None:
        return
    for runtime in runtimes(snap, matrix):
        if need_verdict(snap, matrix, driver, runtime.cuda) != "minor":
            continue
        yield Problem(
            f"driver {describe(driver)} is older than CUDA {runtime.cuda} of {runtime.whose}: it runs by minor-version "
            "compatibility; only PTX needs a newer driver",
            subject=runtime.whose,
            evidence=(
                driver_evidence(driver, snap.machine.driver.source),
                floor_evidence(snap, matrix, runtime.cuda),
            ),
        )


@rule(
    "DRV103",
    "forward-compat-unsupported-gpu",
    "error",
    cause="forward-compat-unsupported-gpu",
    rank=25,
    explains=("DRV101",),
)
def forward_compat_unsupported_gpu(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """cuda-compat is used on a GPU or a driver branch that it doesn't support (error 804).

    Why: forward compatibility is for datacentre GPUs (and NGC-ready workstation ones) and for the driver branches that
    each package lists; elsewhere CUDA stops with 'forward compatibility was attempted on non supported HW'.
    How it is decided: the libcuda that loads is that of cuda-compat, the driver doesn't have its CUDA, and a GPU is a
    consumer model, or the branch isn't in NVIDIA's table.
    Fix: update the driver, or take cuda-compat off the library path.
    Sources: CUDA Compatibility guide, forward compatibility; github: NVIDIA/nvidia-docker issues 1294, 1515.
    """
    if snap.stack.compat.known and snap.stack.compat.value is None:
        return
    loads = [library for library in snap.stack.libraries.get() if _is_libcuda(library.soname) and library.order == 0]
    if not loads or loads[0].origin != "compat":
        return
    driver = snap.machine.driver.get()
    compat = loads[0].version or snap.stack.compat.get()
    brings = matrix.driver_cuda(compat) if compat else None
    if driver is None or not driver.version or brings is None or driver_os(snap) != "linux":
        return
    if matrix.runs_cuda(driver.version, brings) == "native":
        return
    models = [(gpu, matrix.model_of(gpu)) for gpu in nvidia_gpus(snap)]
    unfit = [gpu for gpu, model in models if model is not None and model.segment == "consumer"]
    listed = matrix.forward_compat(driver.version, brings)
    note = snap.stack.forward.find()
    if note is not None and note.branches and note.loads is not False:  # the library itself is the better witness
        listed = versions.branch(driver.version) in note.branches
    if not unfit and listed is not False:
        return
    why = f"{names(unfit)} isn't a datacentre GPU" if unfit else f"it doesn't list driver branch {driver.version[:3]}"
    needed = matrix.driver_floor(brings)
    yield Problem(
        f"cuda-compat {compat} can't be used here: {why}",
        fix=(
            "take the compat folder off LD_LIBRARY_PATH (and /etc/ld.so.conf.d), so that the driver's libcuda loads",
            f"or update the driver to {needed} or newer",
        ),
        subject=loads[0].path or "libcuda.so.1",
        evidence=(
            Evidence("libcuda", f"{loads[0].path} ({compat})", loads[0].source or snap.stack.libraries.source, "found"),
            driver_evidence(driver, snap.machine.driver.source),
        ),
    )


def _is_libcuda(soname: str) -> bool:
    return soname.startswith("libcuda.so")


RULES = (
    driver_not_loaded,
    nouveau_loaded,
    secure_boot_module_rejected,
    driver_too_old_for_cuda,
    minor_version_compat_ok,
    forward_compat_unsupported_gpu,
)
