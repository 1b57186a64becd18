"""GPU: whether a GPU is there, and whether the frameworks have code for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Optional

from envcheck import versions
from envcheck.model.fact import UnknownFact
from envcheck.model.finding import Evidence, Problem
from envcheck.rules.build import Built, frameworks, row_source
from envcheck.rules.kernels import Coverage, cause_of, coverage, listing
from envcheck.rules.presence import (
    VISIBLE,
    capability_of,
    hides_all,
    names,
    nvidia_gpus,
    only_a_log_tells,
    short,
    visible_gpus,
)
from envcheck.rules.ptxas import bundled_ptxas_problems
from envcheck.rules.remedy import companions_here, fitting_build, install_line
from envcheck.rules.rule import rule

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.machine import Gpu
    from envcheck.model.snapshot import Snapshot

TOO_NEW, TOO_OLD, HOLE = "gpu-too-new-for-build", "gpu-too-old-for-build", "gpu-arch-not-in-build"


@rule("GPU101", "no-nvidia-gpu", "note", cause="no-nvidia-gpu", rank=12)
def no_nvidia_gpu(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """No NVIDIA GPU is here: a note, and an error only where a job needs one.

    Why: on a laptop the CPU build is the right build; a job that asks for a GPU will fail.
    How it is decided: NVML, nvidia-smi and the PCI bus were read and show none; Jetson's built-in GPU counts as one.
    Fix: run on a machine with a GPU, or don't ask for one.
    Sources: DESIGN.md, what must be true of verdicts (8).
    """
    if any(gpu.vendor == "nvidia" for gpu in snap.machine.gpus.get()) or snap.machine.jetson.find():
        return
    if snap.machine.driver.find() is not None or snap.machine.container.find() or snap.machine.wsl.find():
        return  # a driver without a GPU, a container and WSL have rules of their own
    yield Problem(
        "no NVIDIA GPU here" + (", and this job needs one" if snap.wants.gpu else ""),
        fix=("run on a machine with an NVIDIA GPU",) if snap.wants.gpu else (),
        severity="error" if snap.wants.gpu else None,
        evidence=(
            Evidence("NVIDIA GPUs", "none", snap.machine.gpus.source, "found"),
            *([Evidence("GPU", "at least one", snap.wants.source, "needed")] if snap.wants.gpu else []),
        ),
    )


@rule("GPU201", "no-kernels-for-gpu", "error", cause=TOO_NEW, also=(TOO_OLD, HOLE), rank=32, explains=("DRV102",))
def no_kernels_for_gpu(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The framework's build has no code that runs on this GPU.

    Why: the first kernel ends in 'no kernel image is available for execution on the device'.
    How it is decided: machine code runs on the same major and an equal or lower minor; PTX at or below the GPU is
    compiled by the driver; suffix 'a' runs on exactly its GPU, 'f' within its family. What the build holds is measured
    from its files where they are there (a few extra kernels are no support), else told by the package, else by the
    matrix. Every GPU that CUDA_VISIBLE_DEVICES leaves is judged; where one of several runs, it is a warning.
    Fix: the nearest build with code for the GPU that the driver and the Python run.
    Sources: CUDA C++ Programming Guide, application compatibility; the arch lists in matrices/builds.
    """
    gpus = visible_gpus(snap)
    if not gpus:
        return
    unsure = ""
    for framework in frameworks(snap, matrix):
        if framework.accelerator not in ("cuda", None):
            continue
        bad: list[tuple[Gpu, str, Coverage]] = []
        good = 0
        for gpu in gpus:
            try:
                capability = capability_of(gpu, matrix)
                code = coverage(snap, matrix, framework, capability)
            except UnknownFact as reason:
                unsure = unsure or str(reason)
                continue
            if code.how == "none":
                bad.append((gpu, capability, code))
            else:
                good += 1
        if bad:
            yield _no_code(snap, matrix, framework, bad, partly=good > 0)
    if unsure:
        raise UnknownFact(unsure)


def _no_code(
    snap: Snapshot, matrix: Matrix, framework: Built, bad: list[tuple[Gpu, str, Coverage]], *, partly: bool
) -> Problem:
    gpu, capability, code = bad[0]
    cause = cause_of(code.compiled, capability)
    called = f"the {short(gpu.name)}" if len({g.name for g, _, _ in bad}) == 1 else names([g for g, _, _ in bad])
    count = f" (all {len(bad)} GPUs)" if len(bad) > 1 and not partly else ""
    row = fitting_build(snap, matrix, framework)
    fixes: tuple[str, ...]
    if row is not None:
        why = {
            TOO_NEW: "it has code for this GPU; your driver can stay",
            TOO_OLD: "the nearest build that still has this GPU",
            HOLE: "a build with this GPU's code",
        }[cause]
        fixes = (f"{install_line(matrix, row, companions_here(snap, matrix, framework.package.name))}   ({why})",)
    else:
        fixes = (_advice(matrix, framework, capability, cause),)
    had = listing(code.compiled) if code.compiled else f"CUDA {framework.cuda}, which dropped {versions.sm(capability)}"
    return Problem(
        f"{framework.label} has no kernels for {called} ({versions.sm(capability)}){count}",
        fix=fixes,
        subject=framework.label,
        cause=cause,
        severity="warning" if partly else None,
        evidence=(
            Evidence(f"code in {framework.label}", had, code.source, "found"),
            Evidence(
                "code",
                f"{versions.sm(capability)}, or older PTX",
                f"{gpu.source or snap.machine.gpus.source}: compute capability {capability}",
                "needed",
            ),
        ),
    )


def _advice(matrix: Matrix, framework: Built, capability: str, cause: str) -> str:
    row = matrix.capability(capability)
    name = framework.package.name
    if cause == TOO_OLD and row is not None and row.last_cuda:
        return f"a build of {name} for CUDA {row.last_cuda} or older that still lists {versions.sm(capability)}"
    if row is not None and row.first_cuda and not row.integrated:
        return f"a build of {name} for CUDA {row.first_cuda} or newer that lists {versions.sm(capability)}"
    return f"a build of {name} with {versions.sm(capability)}: from the board's own wheels or containers"


@rule("GPU210", "ptxas-too-old-for-gpu", "error", cause="ptxas-too-old-for-gpu", rank=45)
def ptxas_too_old_for_gpu(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The ptxas (or nvcc) that will compile for this GPU doesn't know it.

    Why: 'ptxas fatal: Value 'sm_…' is not defined for option gpu-name', or 'PTX .version … does not support .target'.
    How it is decided: something is to be compiled, and the toolkit is older than the first CUDA for the GPU; or the
    error text names it.
    Fix: a toolkit of that CUDA or newer; for JIT compilers a release that ships a newer ptxas.
    Sources: matrices/capabilities.toml (first CUDA); github: pytorch/pytorch issue 95082.
    """
    yield from bundled_ptxas_problems(snap, matrix)
    if not snap.wants.compile:
        if not snap.stack.ptxas.known:
            only_a_log_tells(snap)
        return
    toolkits = [toolkit for toolkit in snap.stack.toolkits.get() if toolkit.on_path is not False]
    for gpu in {gpu.name: gpu for gpu in visible_gpus(snap)}.values() if toolkits else ():
        row = matrix.capability(capability_of(gpu, matrix))
        have, first = versions.find(toolkits[0].version), versions.find(row.first_cuda if row else None)
        if row is None or have is None or first is None or have.release[:2] >= first.release[:2]:
            continue
        yield Problem(
            f"nvcc {toolkits[0].version} can't compile for the {short(gpu.name)} ({versions.sm(row.capability)})",
            fix=(f"install a CUDA toolkit {row.first_cuda} or newer",),
            subject=gpu.name,
            evidence=(
                Evidence("nvcc", toolkits[0].version, toolkits[0].source or snap.stack.toolkits.source, "found"),
                Evidence("nvcc", f">= {row.first_cuda}", row_source(row, "capabilities"), "needed"),
            ),
        )


@rule("GPU307", "cuda-visible-devices-wrong", "error", cause="cuda-visible-devices-wrong", rank=22)
def cuda_visible_devices_wrong(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """CUDA_VISIBLE_DEVICES names GPUs that aren't there, or hides all of them.

    Why: CUDA stops at the first entry that it can't use: 'No CUDA GPUs are available'.
    How it is decided: indices against the number of GPUs, UUIDs against those of the GPUs and MIG instances. Hiding
    all GPUs ('', '-1', 'NoDevFiles') is a note unless a GPU is asked for: it is often meant.
    Fix: unset it, or name GPUs that nvidia-smi -L lists.
    Sources: CUDA C++ Programming Guide, environment variables.
    """
    value = snap.stack.env.get().get(VISIBLE)
    if value is None:
        return
    gpus = [gpu for gpu in nvidia_gpus(snap) if not gpu.lost]
    if not gpus:
        return
    evidence = (
        Evidence(VISIBLE, repr(value), snap.stack.env.source, "found"),
        Evidence("GPUs", names(gpus), snap.machine.gpus.source, "found"),
    )
    unset = f"unset {VISIBLE}   (or set it to {_valid(gpus)})"
    if hides_all(value):
        yield Problem(
            f"{VISIBLE}={value!r} hides every GPU from CUDA",
            fix=(unset,),
            subject=VISIBLE,
            severity=None if snap.wants.gpu else "note",
            evidence=evidence,
        )
        return
    entries = [entry.strip() for entry in value.split(",")]
    wrong = [entry for entry in entries if _exists(entry, gpus) is False]
    if wrong:
        first = entries.index(wrong[0]) == 0
        yield Problem(
            f"{VISIBLE}={value!r} names {', '.join(wrong)}, which isn't here: "
            + ("no GPU is usable" if first else f"only the entries before {wrong[0]} are used"),
            fix=(unset,),
            subject=VISIBLE,
            severity=None if first else "warning",
            evidence=evidence,
        )


def _valid(gpus: list[Gpu]) -> str:
    return "0" if len(gpus) == 1 else f"0 to {len(gpus) - 1}"


def _exists(entry: str, gpus: list[Gpu]) -> Optional[bool]:
    """Is the entry one of the GPUs? None where it can't be told."""
    if entry.isdigit():
        return int(entry) < len(gpus)
    uuids = [gpu.uuid for gpu in gpus] + [mig.uuid for gpu in gpus for mig in gpu.mig_devices]
    if entry.startswith(("GPU-", "MIG-")) and all(uuids):
        return any(uuid.startswith(entry) for uuid in uuids)
    return None


RULES = (no_nvidia_gpu, no_kernels_for_gpu, ptxas_too_old_for_gpu, cuda_visible_devices_wrong)
