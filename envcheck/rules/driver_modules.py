"""DRV: whether the driver's parts fit each other, the GPU, and the code that they must compile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from envcheck import versions
from envcheck.model.finding import Evidence, Problem
from envcheck.rules.build import frameworks, major_of, row_source
from envcheck.rules.floor import describe, driver_evidence, floor_evidence, runs
from envcheck.rules.kernels import coverage, listing
from envcheck.rules.known import heard
from envcheck.rules.presence import capability_of, driver_os, names, nvidia_gpus, only_a_log_tells, visible_gpus
from envcheck.rules.remedy import framework_fix
from envcheck.rules.rule import rule

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot


@rule(
    "DRV104", "cuda-compat-shadows-driver", "error", cause="cuda-compat-shadows-driver", rank=18, explains=("DRV105",)
)
def cuda_compat_shadows_driver(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The libcuda of cuda-compat loads before that of a newer driver (error 803).

    Why: cuda-compat is older than the driver and refuses its kernel module: 'unsupported display driver / cuda driver
    combination'.
    How it is decided: the first libcuda on the library path is of origin compat, and older than the driver.
    Fix: put the driver's folder first, or drop the compat entry from ld.so.conf.d.
    Sources: CUDA Compatibility guide, error 803; github: gpustack/gpustack issue 4678.
    """
    driver = snap.machine.driver.get()
    if driver is None or not driver.version:
        return
    for library in snap.stack.libraries.get():
        if not library.soname.startswith("libcuda.so") or library.order != 0 or library.origin != "compat":
            continue
        failed = heard(snap, matrix, "cuda-compat-shadows-driver")
        version = library.version or snap.stack.compat.find()
        if version is None and not failed:
            version = snap.stack.compat.get()
        found, kernel = versions.find(version), versions.find(driver.version)
        if not failed and (found is None or kernel is None or found.major >= kernel.major):
            continue
        yield Problem(
            f"cuda-compat's libcuda{f' {version}' if version else ''} hides that of driver {driver.version}"
            + (", which is newer" if version else ", which refuses it (error 803)"),
            fix=(
                (
                    "LD_LIBRARY_PATH=<folder of the driver's libcuda> first, e.g. docker run -e "
                    "LD_LIBRARY_PATH=/usr/local/nvidia/lib64:/usr/lib/x86_64-linux-gnu …"
                ),
                "remove the compat line from /etc/ld.so.conf.d and run ldconfig",
            ),
            subject=library.path or library.soname,
            evidence=(
                *(Evidence("log", event.text, event.source) for event in failed[:1]),
                Evidence(library.soname, library.path + (f" ({version})" if version else ""), library.source, "found"),
                driver_evidence(driver, snap.machine.driver.source),
            ),
        )


@rule("DRV105", "cuda-driver-library-mismatch", "error", cause="cuda-driver-library-mismatch", rank=20)
def cuda_driver_library_mismatch(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """libcuda and the kernel module are of different driver versions (error 803).

    Why: the user-space driver talks only to a kernel module of its own version.
    How it is decided: the version of the driver's libcuda against the loaded module's; cuda-compat doesn't count.
    Fix: reboot (or reload the modules) after a driver update; in a container take the host's library.
    Sources: CUDA Compatibility guide, errors.
    """
    driver, library = snap.machine.driver.get(), snap.machine.libcuda_version
    if driver is None or not driver.version or library.get() is None or snap.machine.wsl.find():
        return
    if len(versions.parse(driver.version).release) < 2 or library.get() == driver.version:
        return
    yield Problem(
        f"libcuda is of driver {library.get()}, the loaded kernel module of {driver.version}",
        fix=("sudo reboot   (or unload and load the nvidia modules): the update is finished only then",),
        subject="libcuda",
        evidence=(
            Evidence("libcuda", str(library.get()), library.source, "found"),
            Evidence("kernel module", driver.version, driver.source or snap.machine.driver.source, "needed"),
        ),
    )


@rule(
    "DRV106",
    "nvml-driver-library-mismatch",
    "error",
    cause="nvml-driver-library-mismatch",
    rank=15,
    explains=("DRV001", "DRV105"),
)
def nvml_driver_library_mismatch(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """libnvidia-ml and the kernel module are of different driver versions (NVML 18).

    Why: after an update of the driver packages the old module stays loaded until the reboot; NVML, nvidia-smi and
    containers then stop with 'Driver/library version mismatch'.
    How it is decided: NVML's answer, or the library's version against the module's.
    Fix: reboot, or reload the modules; if it stays, the module of the new version wasn't built.
    Sources: NVML API reference (NVML_ERROR_LIB_RM_VERSION_MISMATCH).
    """
    fault = snap.machine.driver_fault.find()
    driver, library = snap.machine.driver.find(), snap.machine.nvml_version
    said = fault is not None and fault.code == "LIB_RM_VERSION_MISMATCH"
    differs = False
    if not said:
        driver = snap.machine.driver.get()
        full = driver is not None and driver.version and len(versions.parse(driver.version).release) > 1
        wsl = snap.machine.wsl.find()
        differs = bool(full and not wsl and library.get() and driver and library.get() != driver.version)
    if not (said or differs):
        return
    module = driver.version if driver is not None and driver.version else "another version"
    found = library.find() or "another version"
    yield Problem(
        f"the driver's libraries are of {found}, the loaded kernel module of {module}",
        fix=(
            (
                "sudo reboot   (or, with the GPU unused: sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && "
                "sudo modprobe nvidia)"
            ),
            "if it stays: the module of the new version wasn't built; reinstall the driver's dkms package",
        ),
        subject="libnvidia-ml",
        evidence=(
            Evidence("libnvidia-ml", found, library.source or snap.machine.driver_fault.source, "found"),
            Evidence("kernel module", module, snap.machine.driver.source or snap.machine.driver_fault.source, "needed"),
        ),
    )


@rule("DRV111", "ptx-too-new-for-driver", "error", cause="ptx-too-new-for-driver", rank=35, explains=("DRV102",))
def ptx_too_new_for_driver(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The GPU runs this build only by PTX, and the driver is too old to compile that PTX.

    Why: minor-version compatibility doesn't reach PTX: 'the provided PTX was compiled with an unsupported toolchain'.
    How it is decided: the build has no machine code for the GPU but PTX, and the driver's CUDA is older than the
    build's.
    Fix: update the driver, or take a build with machine code for this GPU.
    Sources: CUDA Compatibility guide, minor version compatibility, limitations.
    """
    driver = snap.machine.driver.get()
    gpus = visible_gpus(snap)
    if driver is None or not gpus:
        return
    for framework in frameworks(snap, matrix):
        if not framework.cuda or runs(snap, matrix, driver, framework.cuda) != "minor":
            continue
        by_ptx = []
        for gpu in gpus:
            code = coverage(snap, matrix, framework, capability_of(gpu, matrix))
            if code.how == "ptx":
                by_ptx.append((gpu, code))
        if not by_ptx:
            continue
        code = by_ptx[0][1]
        native = matrix.driver_floor(framework.cuda, driver_os(snap))
        fixes = [f"update the driver to {native} or newer" if native else "update the driver"]
        other = framework_fix(snap, matrix, framework)
        yield Problem(
            f"{framework.label} has only PTX for {names([gpu for gpu, _ in by_ptx])}, and driver {describe(driver)} "
            f"can't compile PTX of CUDA {framework.cuda}",
            fix=(*fixes, *([other] if other else [])),
            subject=framework.label,
            evidence=(
                Evidence(f"code in {framework.label}", listing(code.compiled), code.source, "found"),
                driver_evidence(driver, snap.machine.driver.source),
                floor_evidence(snap, matrix, framework.cuda),
            ),
        )


@rule("DRV112", "gpu-dropped-by-driver", "error", cause="gpu-dropped-by-driver", rank=9, explains=("DRV001", "DRV101"))
def gpu_dropped_by_driver(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """This driver branch, or its open kernel modules, no longer supports the GPU's family.

    Why: the module doesn't take the device: nvidia-smi finds none, dmesg says that the GPU is not supported.
    How it is decided: the last branch for the GPU's compute capability, and what the open modules support.
    Fix: the last branch that supports it, with the proprietary modules.
    Sources: matrices/capabilities.toml (last branch); NVIDIA 580 driver README, Open Linux Kernel Modules.
    """
    gpus = nvidia_gpus(snap)
    if not gpus:
        return
    driver = snap.machine.driver.get()
    if driver is None or not driver.version or driver_os(snap) == "windows":
        return
    branch = versions.branch(driver.version)
    for name in dict.fromkeys(gpu.name for gpu in gpus):
        gpu = next(gpu for gpu in gpus if gpu.name == name)
        row = matrix.capability(capability_of(gpu, matrix))
        if row is None or row.integrated:
            continue
        dropped = row.last_branch is not None and branch > row.last_branch
        closed_only = row.open_modules == "unsupported" and driver.flavour == "open"
        if not dropped and not closed_only:
            continue
        last = row.last_branch
        branches = [known for known in matrix.branches if known.platform == "linux" and known.branch == last]
        latest = f", e.g. {branches[0].latest}" if branches and branches[0].latest else ""
        if dropped:
            message = (
                f"driver {driver.version} no longer supports {name} ({row.architecture}): {last} is the last branch"
            )
            fix = f"install the driver of branch {last}{latest}, with its proprietary kernel modules"
        else:
            message = f"the open kernel modules of driver {driver.version} don't support {name} ({row.architecture})"
            fix = f"install the proprietary kernel modules of branch {last or branch}{latest}"
        yield Problem(
            message,
            fix=(fix,),
            subject=name,
            evidence=(
                driver_evidence(driver, snap.machine.driver.source),
                Evidence("driver", f"branch <= {last}, proprietary modules", row_source(row, "capabilities"), "needed"),
            ),
        )


@rule(
    "DRV113", "open-kernel-module-required", "error", cause="open-kernel-module-required", rank=9, explains=("DRV001",)
)
def open_kernel_module_required(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """This GPU works only with the open kernel modules, and the proprietary ones are loaded.

    Why: from Blackwell on the proprietary modules don't take the device; nvidia-smi says 'No devices were found'.
    How it is decided: the flavour of the loaded module and the GPU's compute capability.
    Fix: install the driver's -open kernel module package of the same version and reboot.
    Sources: github: NVIDIA/open-gpu-kernel-modules README, issues 862, 872; NVIDIA 580 driver README.
    """
    gpus = nvidia_gpus(snap)
    if not gpus:
        return
    driver = snap.machine.driver.get()
    if driver is None or driver_os(snap) == "windows":
        return
    needing = []
    for gpu in gpus:
        row = matrix.capability(capability_of(gpu, matrix))
        if row is not None and row.open_modules == "required":
            needing.append((gpu, row))
    if not needing or driver.flavour != "proprietary":
        return
    branch = versions.branch(driver.version) if driver.version else ""
    package = f"nvidia-driver-{branch}-open" if branch else "the -open driver package"
    yield Problem(
        f"{names([gpu for gpu, _ in needing])} works only with the open kernel modules; the proprietary are loaded",
        fix=(f"sudo apt install {package}   (or your distribution's open kernel module package), then reboot",),
        subject=needing[0][0].name,
        evidence=(
            Evidence("kernel modules", "proprietary", driver.source or snap.machine.driver.source, "found"),
            Evidence("kernel modules", "open", row_source(needing[0][1], "capabilities"), "needed"),
        ),
    )


@rule("DRV114", "uvm-broken-after-suspend", "error", cause="uvm-broken-after-suspend", rank=14)
def uvm_broken_after_suspend(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """nvidia_uvm is in a bad state, most often after a suspend (unknown error 999).

    Why: nvidia-smi works, and every new CUDA program fails until the module is loaded again.
    How it is decided: by the error text, or by a /dev/nvidia-uvm that this user can't open beside a usable nvidiactl.
    Fix: stop GPU programs, reload nvidia_uvm.
    Sources: github: pytorch/pytorch issue 88639.
    """
    if not snap.machine.device_nodes.known:
        only_a_log_tells(snap)
        return
    nodes = {node.path.rpartition("/")[2]: node for node in snap.machine.device_nodes.get()}
    uvm, control = nodes.get("nvidia-uvm"), nodes.get("nvidiactl")
    if uvm is None or control is None or uvm.usable is not False or not control.usable:
        return
    yield Problem(
        "/dev/nvidia-uvm can't be opened although /dev/nvidiactl can: CUDA programs will fail with an unknown error",
        fix=("sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm   (stop GPU programs first), or reboot",),
        subject="/dev/nvidia-uvm",
        evidence=(Evidence("/dev/nvidia-uvm", f"not usable {uvm.mode}", snap.machine.device_nodes.source, "found"),),
    )


@rule("DRV110", "toolkit-differs", "note", cause="nvcc-torch-cuda-mismatch", rank=80)
def toolkit_differs(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The toolkit (nvcc) is of another CUDA than the framework's: no matter unless you compile.

    Why: frameworks bring their own CUDA runtime; nvcc is used only when extensions are compiled.
    How it is decided: the nvcc that PATH or CUDA_HOME gives, against the CUDA of each framework's build.
    Fix: none needed.
    Sources: PyTorch documentation, torch.utils.cpp_extension.
    """
    if snap.wants.compile:
        return
    toolkits = [toolkit for toolkit in snap.stack.toolkits.get() if toolkit.on_path is not False]
    if not toolkits:
        return
    nvcc = toolkits[0]
    for framework in frameworks(snap, matrix):
        if not framework.cuda or not framework.kind.brings_cuda:
            continue
        ours, theirs = versions.find(framework.cuda), versions.find(nvcc.version)
        if ours is None or theirs is None or ours.release[:2] == theirs.release[:2]:
            continue
        if len(ours.release) == 1 and ours.major == major_of(nvcc.version):
            continue
        yield Problem(
            f"nvcc {nvcc.version}{' on PATH' if nvcc.on_path else ''} differs from CUDA {framework.cuda} of "
            f"{framework.label}: no matter unless you compile extensions",
            subject=framework.label,
            evidence=(
                Evidence("nvcc", nvcc.version, nvcc.source or snap.stack.toolkits.source, "found"),
                framework.cuda_evidence,
            ),
        )


RULES = (
    cuda_compat_shadows_driver,
    cuda_driver_library_mismatch,
    nvml_driver_library_mismatch,
    toolkit_differs,
    ptx_too_new_for_driver,
    gpu_dropped_by_driver,
    open_kernel_module_required,
    uvm_broken_after_suspend,
)
