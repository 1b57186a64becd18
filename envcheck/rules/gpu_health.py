"""GPU: whether the GPUs that are there are sound and set up as they are to be used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from envcheck.model.fact import UnknownFact
from envcheck.model.finding import Evidence, Problem
from envcheck.rules.presence import VISIBLE, only_a_log_tells, short
from envcheck.rules.rule import rule

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot

FELL_OFF = 79  # Xid: GPU has fallen off the bus
NEARLY_FULL = 0.97


@rule("GPU301", "gpu-fell-off-bus", "error", cause="gpu-fell-off-bus", rank=8)
def gpu_fell_off_bus(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """A GPU is lost: it no longer answers on the PCI bus (Xid 79).

    Why: overheating, power or a bad slot; processes on it hang, and often every CUDA program of the node.
    How it is decided: NVML says that the GPU is lost, or the kernel log has Xid 79. A GPU that merely didn't answer in
    time is not called lost.
    Fix: drain the node, power-cycle it, check seating, cooling and power; reset alone rarely helps.
    Sources: NVIDIA Xid errors document; github: NVIDIA/open-gpu-kernel-modules issue 507.
    """
    lost = [gpu for gpu in snap.machine.gpus.get() if gpu.lost]
    fallen = [xid for xid in snap.machine.xids.find() or () if xid.code == FELL_OFF]
    for gpu in lost:
        place = f"GPU {gpu.index}" if gpu.index is not None else gpu.pci_bus or short(gpu.name)
        yield Problem(
            f"{place} ({short(gpu.name)}) is lost: {gpu.lost}",
            fix=(
                "drain the node and power-cycle it; then check seating, power and cooling",
                "sudo dmesg | grep -i xid   (79: fallen off the bus)",
            ),
            subject=gpu.pci_bus or place,
            evidence=(
                Evidence(place, gpu.lost, gpu.source or snap.machine.gpus.source, "found"),
                *(Evidence("Xid", f"{xid.code} {xid.message}", xid.source) for xid in fallen[:1]),
            ),
        )
    if fallen and not lost:
        yield Problem(
            "a GPU has fallen off the bus (Xid 79 in the kernel log)",
            fix=("drain the node and power-cycle it; then check seating, power and cooling",),
            subject="Xid 79",
            evidence=(Evidence("Xid", fallen[0].message or "79", fallen[0].source, "found"),),
        )
    if not lost and not fallen:
        snap.machine.xids.get()


@rule("GPU302", "gpu-ecc-row-remap-pending", "error", cause="gpu-ecc-row-remap-pending", rank=40)
def gpu_ecc_row_remap_pending(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """Memory errors of a GPU wait for a reset, or could not be remapped.

    Why: until the reset the bad rows stay in use; a failed remap means that the GPU has to be replaced.
    How it is decided: row-remap or page-retirement state by NVML; a GPU that can't tell isn't judged.
    Fix: stop its processes and reset it; replace it where remapping failed.
    Sources: NVIDIA GPU Memory Error Management.
    """
    unknown = 0
    gpus = [gpu for gpu in snap.machine.gpus.get() if gpu.vendor == "nvidia" and not gpu.lost]
    for gpu in gpus:
        index = "" if gpu.index is None else f" {gpu.index}"
        source = gpu.source or snap.machine.gpus.source
        if gpu.remap_failed:
            yield Problem(
                f"GPU{index} ({short(gpu.name)}) couldn't remap a bad memory row: replace it",
                fix=("run NVIDIA's field diagnostics, and return the GPU",),
                subject=f"GPU{index}",
                evidence=(Evidence("row remap", "failed", source, "found"),),
            )
        elif gpu.remap_pending:
            yield Problem(
                f"GPU{index} ({short(gpu.name)}) has memory errors that wait for a reset",
                fix=(f"sudo nvidia-smi --gpu-reset -i{index or ' N'}   (stop its processes first), or reboot",),
                subject=f"GPU{index}",
                severity="warning",
                evidence=(Evidence("row remap", "pending", source, "found"),),
            )
        elif gpu.remap_pending is None:
            unknown += 1
    if gpus and unknown == len(gpus):
        raise UnknownFact("row-remap state of the GPUs: not told, or not supported by them")


@rule("GPU303", "gpu-out-of-memory", "note", cause="gpu-out-of-memory", rank=65)
def gpu_out_of_memory(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """GPU memory is full, or ran out: not a fault of the environment.

    Why: another process holds the memory, or the job needs more than the GPU has.
    How it is decided: the memory in use by NVML, or the error text.
    Fix: stop what holds it (nvidia-smi lists it), or make the job smaller.
    Sources: PyTorch documentation, CUDA semantics, memory management.
    """
    gpus = [gpu for gpu in snap.machine.gpus.get() if gpu.vendor == "nvidia" and not gpu.lost]
    measured = [gpu for gpu in gpus if gpu.memory_mib and gpu.memory_used_mib is not None]
    for gpu in measured:
        used, total = gpu.memory_used_mib or 0, gpu.memory_mib or 1
        if used / total >= NEARLY_FULL:
            index = "" if gpu.index is None else f" {gpu.index}"
            yield Problem(
                f"GPU{index} ({short(gpu.name)}) has {used} of {total} MiB in use: new processes will lack memory",
                fix=("nvidia-smi   (lists who holds it)",),
                subject=f"GPU{index}",
                evidence=(Evidence("memory in use", f"{used} MiB", gpu.source or snap.machine.gpus.source, "found"),),
            )
    if gpus and not measured:
        raise UnknownFact("memory in use: not told")


@rule("GPU304", "tf32-precision-expected", "note", cause="tf32-precision-expected", rank=90)
def tf32_precision_expected(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """Results differ by TF32's lower precision: by design.

    Why: from Ampere on, matrix products may use TF32 with a 10-bit mantissa.
    How it is decided: only a described difference tells; nothing of the environment is at fault.
    Fix: turn TF32 off where accuracy matters.
    Sources: PyTorch documentation, CUDA semantics, TensorFloat-32; github: pytorch/pytorch issue 58434.
    """
    only_a_log_tells(snap)
    return ()


@rule("GPU305", "mig-misconfigured", "error", cause="mig-misconfigured", rank=24)
def mig_misconfigured(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """MIG mode is on and there is no instance to use.

    Why: with MIG on, CUDA sees instances only; without one it finds no device.
    How it is decided: MIG mode and instances of every GPU, by NVML.
    Fix: create instances, or switch MIG off.
    Sources: NVIDIA Multi-Instance GPU User Guide.
    """
    gpus = [gpu for gpu in snap.machine.gpus.get() if gpu.vendor == "nvidia" and not gpu.lost]
    if gpus and all(gpu.mig_enabled is None for gpu in gpus):
        raise UnknownFact("MIG mode of the GPUs: not told")
    empty = [gpu for gpu in gpus if gpu.mig_enabled and not gpu.mig_devices]
    for gpu in empty:
        index = "" if gpu.index is None else f" {gpu.index}"
        yield Problem(
            f"GPU{index} ({short(gpu.name)}) is in MIG mode without instances: CUDA sees no device on it",
            fix=(
                f"sudo nvidia-smi mig -i{index or ' N'} -cgi <profile> -C   (nvidia-smi mig -lgip lists the profiles)",
                f"or switch MIG off: sudo nvidia-smi -i{index or ' N'} -mig 0",
            ),
            subject=f"GPU{index}",
            severity="warning" if len(empty) < len(gpus) else None,
            evidence=(Evidence("MIG", "on, no instances", gpu.source or snap.machine.gpus.source, "found"),),
        )


@rule("GPU306", "mig-one-instance-per-process", "note", cause="mig-one-instance-per-process", rank=70)
def mig_one_instance_per_process(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """Several MIG instances are named, and a CUDA process sees one.

    Why: CUDA uses the first MIG instance of CUDA_VISIBLE_DEVICES; multi-GPU code finds one device.
    How it is decided: more than one MIG entry in CUDA_VISIBLE_DEVICES.
    Fix: one process for each instance.
    Sources: NVIDIA Multi-Instance GPU User Guide, CUDA device enumeration.
    """
    value = snap.stack.env.get().get(VISIBLE, "")
    instances = [entry for entry in value.split(",") if entry.strip().startswith("MIG-")]
    if len(instances) > 1:
        yield Problem(
            f"{VISIBLE} names {len(instances)} MIG instances: a CUDA process sees only the first",
            fix=("start one process for each instance",),
            subject=VISIBLE,
            evidence=(Evidence(VISIBLE, value, snap.stack.env.source, "found"),),
        )


RULES = (
    gpu_fell_off_bus,
    gpu_ecc_row_remap_pending,
    gpu_out_of_memory,
    tf32_precision_expected,
    mig_misconfigured,
    mig_one_instance_per_process,
)
