"""HST: what the operating system gives: shared memory, locked memory, WSL, Jetson."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from envcheck.model.finding import Evidence, Problem
from envcheck.rules.build import frameworks
from envcheck.rules.gpu_request import small_shm
from envcheck.rules.presence import nvidia_gpus, only_a_log_tells, visible_gpus
from envcheck.rules.rule import rule

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot

DEFAULT_SHM = 64 * 2**20  # what Docker gives a container
MEMLOCK_FLOOR = 64 * 2**20  # RDMA registers far more; 64 KiB to 8 MiB are the distributions' defaults


@rule("HST101", "shm-too-small", "warning", cause="shm-too-small", rank=44)
def shm_too_small(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """/dev/shm has the engine's default of 64 MB.

    Why: data loaders with workers and NCCL keep their buffers there ('bus error', 'No space left on device').
    How it is decided: in a container with GPUs and a framework, /dev/shm is 64 MB or less. What a job needs isn't
    known, so it is a warning.
    Fix: `--ipc=host` or `--shm-size=8g` (compose: shm_size; Kubernetes: an emptyDir of medium Memory).
    Sources: PyTorch README (docker); NCCL documentation, troubleshooting (shared memory).
    """
    told = small_shm(snap)
    if told is not None:
        yield told
        return
    if snap.machine.container.get() is None:
        return
    size = snap.machine.shm_bytes.get()
    if size > DEFAULT_SHM or not visible_gpus(snap) or not any(True for _ in frameworks(snap, matrix)):
        return
    yield Problem(
        f"/dev/shm is {size // 2**20} MB: data loaders and NCCL run out of it",
        fix=("docker run --ipc=host …   (or --shm-size=8g)",),
        subject="/dev/shm",
        evidence=(Evidence("/dev/shm", f"{size // 2**20} MB", snap.machine.shm_bytes.source, "found"),),
    )


@rule("HST102", "memlock-too-low", "warning", cause="memlock-too-low", rank=46)
def memlock_too_low(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The locked-memory limit is too low for RDMA.

    Why: registering memory with the network card fails ('ibv_reg_mr … Cannot allocate memory').
    How it is decided: RDMA devices and GPUs are here, and the limit of this process is below 64 MB.
    Fix: unlimited memlock: `ulimit -l unlimited`, `docker run --ulimit memlock=-1`, LimitMEMLOCK=infinity for slurmd.
    Sources: NCCL documentation, troubleshooting; NVIDIA framework images' own advice.
    """
    if not snap.machine.rdma.get() or not nvidia_gpus(snap):
        return
    limit = snap.machine.memlock_bytes.get()
    if limit < 0 or limit >= MEMLOCK_FLOOR:
        return
    yield Problem(
        f"locked memory is limited to {limit // 1024} KB: RDMA needs it unlimited",
        fix=("ulimit -l unlimited   (docker run --ulimit memlock=-1; slurmd: LimitMEMLOCK=infinity)",),
        subject="memlock",
        evidence=(Evidence("max locked memory", f"{limit // 1024} KB", snap.machine.memlock_bytes.source, "found"),),
    )


@rule("HST201", "wsl-no-gpu", "note", cause="wsl-no-gpu", rank=15)
def wsl_no_gpu(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """WSL passes no GPU through.

    Why: WSL 1 has no GPU support; WSL 2 shows one as /dev/dxg when the Windows driver has it.
    How it is decided: WSL, and no GPU or driver library seen. An error where a GPU is asked for.
    Fix: `wsl --update`, `wsl --set-version DISTRO 2`, and the current Windows driver; no Linux driver inside WSL.
    Sources: NVIDIA CUDA on WSL user guide.
    """
    wsl = snap.machine.wsl.get()
    if not wsl:
        return
    if wsl > 1 and (snap.machine.gpus.get() or snap.machine.driver.find() is not None):
        return
    wanted = bool(snap.wants.gpu)
    yield Problem(
        ("WSL 1 has no GPUs" if wsl == 1 else "WSL shows no GPU") + (", and this job needs one" if wanted else ""),
        fix=(
            "in Windows: wsl --set-version DISTRO 2"
            if wsl == 1
            else "in Windows: wsl --update, and NVIDIA's current Windows driver",
        ),
        subject="WSL",
        severity="error" if wanted else None,
        evidence=(Evidence("WSL", str(wsl), snap.machine.wsl.source, "found"),),
    )


@rule("HST202", "wsl-libcuda-shadowed", "error", cause="wsl-libcuda-shadowed", rank=17)
def wsl_libcuda_shadowed(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """A Linux driver's libcuda comes before WSL's own.

    Why: in WSL the driver is Windows'; a libcuda of a Linux driver package finds no kernel module.
    How it is decided: WSL, and the libcuda that loads first isn't from /usr/lib/wsl.
    Fix: remove the Linux driver packages from the distribution in WSL.
    Sources: NVIDIA CUDA on WSL user guide.
    """
    if not snap.machine.wsl.get():
        return
    found = [lib for lib in snap.stack.libraries.get() if lib.soname.startswith("libcuda.so") and lib.order == 0]
    for library in found:
        if library.origin not in ("wsl", "stub", ""):
            yield Problem(
                f"libcuda loads from {library.path}, before WSL's own",
                fix=("sudo apt-get purge 'nvidia-driver-*' 'libnvidia-compute-*' && sudo ldconfig",),
                subject=library.path,
                evidence=(
                    Evidence("libcuda.so.1", library.path, library.source or snap.stack.libraries.source, "found"),
                    Evidence(
                        "libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "NVIDIA CUDA on WSL user guide", "needed"
                    ),
                ),
            )


@rule("HST203", "wsl-libcuda-not-symlink", "note", cause="wsl-libcuda-not-symlink", rank=72)
def wsl_libcuda_not_symlink(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """ldconfig complains that WSL's libcuda.so.1 is no symbolic link: harmless.

    Why: Windows mounts copies where Linux expects links.
    How it is decided: by ldconfig's message in a log.
    Fix: nothing; to silence it, make the links in a folder of your own.
    Sources: github: microsoft/WSL issue 5663.
    """
    only_a_log_tells(snap)
    return ()


@rule("HST301", "jetson-generic-wheel", "error", cause="jetson-generic-wheel", rank=33)
def jetson_generic_wheel(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """A generic wheel is installed on a Jetson.

    Why: the wheels of the public index are for CPUs or for servers' GPUs; Jetson's needs NVIDIA's builds for JetPack.
    How it is decided: a Jetson, and a framework whose build is CPU-only.
    Fix: NVIDIA's wheel or container for this JetPack.
    Sources: NVIDIA documentation, PyTorch for Jetson; github: conda-forge/pytorch-cpu-feedstock issue 303.
    """
    if not snap.machine.jetson.get():
        return
    for framework in frameworks(snap, matrix):
        if framework.accelerator == "cpu":
            yield Problem(
                f"{framework.label} is a generic CPU build on a Jetson ({snap.machine.jetson.get()})",
                fix=("install NVIDIA's wheel for this JetPack, or use its l4t container",),
                subject=framework.package.name,
                evidence=(
                    Evidence(f"build of {framework.label}", "CPU", framework.package.source, "found"),
                    Evidence("machine", str(snap.machine.jetson.get()), snap.machine.jetson.source),
                ),
            )


@rule("HST302", "jetson-no-nvml", "note", cause="jetson-no-nvml", rank=74)
def jetson_no_nvml(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """This Jetson has no NVML: expected before JetPack 6.

    Why: the integrated GPU is not managed by NVML there; tools that need it say so, CUDA works.
    How it is decided: a Jetson whose NVML isn't there or answers that it isn't supported.
    Fix: nothing; `tegrastats` shows what nvidia-smi would.
    Sources: NVIDIA Jetson documentation.
    """
    if not snap.machine.jetson.get():
        return
    fault = snap.machine.driver_fault.find()
    if snap.machine.nvml_version.get() is None or fault is not None:
        yield Problem(
            "this Jetson has no NVML: nvidia-smi and NVML don't work here, CUDA does",
            fix=(),
            subject="NVML",
            evidence=(Evidence("libnvidia-ml", "none", snap.machine.nvml_version.source, "found"),),
        )
