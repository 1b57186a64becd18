"""SET: what the project's settings require of the machine, against what is there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Optional

from envcheck.model.fact import UnknownFact
from envcheck.model.finding import Problem
from envcheck.rules.need import UNMET, meets, problem
from envcheck.rules.rule import rule

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.machine import Gpu
    from envcheck.model.snapshot import Snapshot

ELSEWHERE = "run on a machine that has it (`envcheck machines` lists cloud types)"


@rule("SET105", "driver-not-as-required", "error", cause=UNMET, rank=70)
def driver_not_as_required(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The NVIDIA driver is missing or of another release than the settings require.

    Why: `require.driver` names what the project's machines must have.
    How: the kernel driver's version against the specifier; a branch alone ('535') counts as its first release.
    Fix: install a driver that fits, or run on another machine.
    Sources: docs/settings.md.
    """
    need = snap.wants.need
    if need is None or not need.driver:
        return
    driver = snap.machine.driver.get()
    if driver is not None and not driver.version:
        raise UnknownFact("NVIDIA driver version: not told")
    version = driver.version if driver else None
    if version and meets(need.driver, version):
        return
    found = ("driver", version or "", snap.machine.driver.source)
    yield problem(need, "require.driver", need.driver, found, f"install an NVIDIA driver {need.driver}")


@rule("SET111", "gpus-not-as-required", "error", cause=UNMET, rank=70)
def gpus_not_as_required(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The GPUs are fewer, of other models, older or smaller than the settings require.

    Why: `require.gpu` names what the project needs to run.
    How: number, name, compute capability and memory of the NVIDIA GPUs that answer. A machine without any is told by
    its own rule.
    Fix: run on a machine that has them (`envcheck machines` lists cloud types), or relax the requirement.
    Sources: matrices/gpus.toml (names, capabilities); docs/settings.md.
    """
    need = snap.wants.need
    if need is None or need.gpu is None:
        return
    wanted = need.gpu
    gpus = [gpu for gpu in snap.machine.gpus.get() if gpu.vendor == "nvidia"]
    source = snap.machine.gpus.source
    if not gpus:
        return
    able = [gpu for gpu in gpus if not gpu.lost]
    if wanted.count and not meets(wanted.count, str(len(able))):
        yield problem(need, "require.gpu.count", wanted.count, ("GPUs", str(len(able)), source), ELSEWHERE)
    open_questions = []
    for gpu in able:
        name = gpu.name if gpu.index is None else f"GPU {gpu.index}, {gpu.name}"
        if wanted.names and not any(_is_model(gpu, model, matrix) for model in wanted.names):
            models = " or ".join(wanted.names)
            yield problem(
                need,
                "require.gpu.names",
                models,
                (name, gpu.name, source),
                ELSEWHERE,
                message=f"the settings require {models}, and {name} is here",
            )
        capability = matrix.capability_of(gpu)
        if wanted.capability and not capability:
            open_questions.append(f"compute capability of {name}: not known")
        elif wanted.capability and capability and not meets(wanted.capability, capability):
            yield problem(
                need,
                "require.gpu.capability",
                wanted.capability,
                (f"compute capability of {name}", capability, source),
                ELSEWHERE,
            )
        if wanted.memory_bytes:
            if gpu.memory_mib is None:
                open_questions.append(f"memory of {name}: not told")
            elif gpu.memory_mib * 2**20 < wanted.memory_bytes:
                yield problem(
                    need,
                    "require.gpu.memory",
                    f">= {_size(wanted.memory_bytes)}",
                    (f"memory of {name}", f"{gpu.memory_mib / 1024:.3g} GB", source),
                    ELSEWHERE,
                )
    if open_questions:
        raise UnknownFact("; ".join(dict.fromkeys(open_questions)))


def _is_model(gpu: Gpu, wanted: str, matrix: Matrix) -> bool:
    if wanted.lower() in gpu.name.lower():
        return True
    model, here = matrix.find_gpu(wanted), matrix.model_of(gpu)
    return model is not None and here is not None and model.name == here.name


@rule("SET112", "gpu-feature-missing", "error", cause=UNMET, rank=70)
def gpu_feature_missing(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """A GPU lacks a feature that the settings require (bf16, fp8, fp4, tf32, nvlink, mig).

    Why: code that needs the feature fails, or runs many times slower in emulation.
    How: the number formats by the GPU's compute capability, NVLink and MIG by its model, MIG also as switched on.
    Fix: run on GPUs that have it, or let the code do without and drop the requirement.
    Sources: matrices/capabilities.toml, matrices/gpus.toml; docs/settings.md.
    """
    need = snap.wants.need
    wanted = tuple(dict.fromkeys((*(need.features if need else ()), *snap.wants.features)))
    if not wanted or need is None:
        return
    source = snap.machine.gpus.source
    open_questions = []
    for gpu in snap.machine.gpus.get():
        if gpu.vendor != "nvidia" or gpu.lost:
            continue
        name = gpu.name if gpu.index is None else f"GPU {gpu.index}, {gpu.name}"
        for feature in wanted:
            has = _has(gpu, feature, snap, matrix)
            if has is None:
                open_questions.append(f"{feature} of {name}: not known")
            elif not has:
                capability = matrix.capability_of(gpu)
                found = f"compute capability {capability}" if capability else "not there"
                yield problem(
                    need,
                    "require.features",
                    feature,
                    (f"{feature} of {name}", found, source),
                    ELSEWHERE,
                    message=f"the settings require {feature}, and {name} doesn't have it",
                )
    if open_questions:
        raise UnknownFact("; ".join(dict.fromkeys(open_questions)))


def _has(gpu: Gpu, feature: str, snap: Snapshot, matrix: Matrix) -> Optional[bool]:
    model = matrix.model_of(gpu)
    if feature == "mig":
        return gpu.mig_enabled or (model.mig if model else None)
    if feature == "nvlink":
        link = snap.machine.interconnect.find()
        if link in ("nvlink", "nvswitch"):
            return True
        told = model.nvlink.split()[0].rstrip(",") if model and model.nvlink else ""
        return {"yes": True, "2-way": True, "no": False}.get(told)
    capability = matrix.capability_of(gpu)
    row = matrix.capability(capability) if capability else None
    if row is None or (feature not in row.features and feature not in row.lacks):
        return None
    return feature in row.features


def _size(number: int) -> str:
    return f"{number / 1e9:.0f} GB" if number >= 1e11 else f"{number / 1e9:.3g} GB"


@rule("SET121", "shm-below-requirement", "error", cause="shm-too-small", rank=70)
def shm_below_requirement(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """/dev/shm is smaller than the settings require.

    Why: data loaders and NCCL pass data through it, and die with a bus error when it is full.
    How: the size of /dev/shm against `require.shm`.
    Fix: start the container with --shm-size or --ipc=host.
    Sources: docs/settings.md.
    """
    need = snap.wants.need
    if need is not None and need.shm_bytes is not None:
        shm = snap.machine.shm_bytes
        wanted = _size(need.shm_bytes)
        if shm.get() < need.shm_bytes:
            yield problem(
                need,
                "require.shm",
                f">= {wanted}",
                ("/dev/shm", _size(shm.get()), shm.source),
                f"docker run --shm-size={need.shm_bytes} …, or --ipc=host",
            )


@rule("SET122", "ram-below-requirement", "error", cause=UNMET, rank=70)
def ram_below_requirement(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The machine has less memory than the settings require.

    Why: `require.ram` names what the project needs.
    How: total RAM against the requirement, with 3 % allowed for what firmware and kernel keep.
    Fix: run on a larger machine.
    Sources: docs/settings.md.
    """
    need = snap.wants.need
    if need is not None and need.ram_bytes is not None:
        ram = snap.machine.ram_bytes
        if ram.get() < need.ram_bytes * 0.97:
            found = ("RAM", _size(ram.get()), ram.source)
            yield problem(need, "require.ram", f">= {_size(need.ram_bytes)}", found, "run on a larger machine")


@rule("SET123", "disk-below-requirement", "error", cause=UNMET, rank=70)
def disk_below_requirement(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """Less disk is free than the settings require.

    Why: images and wheels with CUDA take tens of gigabytes; a full disk fails late.
    How: free space against `require.disk`.
    Fix: free space (`docker system prune`), or run where there is more.
    Sources: docs/settings.md.
    """
    need = snap.wants.need
    if need is not None and need.disk_bytes is not None:
        disk = snap.machine.disk_free_bytes
        if disk.get() < need.disk_bytes:
            wanted = f">= {_size(need.disk_bytes)}"
            found = ("free disk", _size(disk.get()), disk.source)
            yield problem(need, "require.disk", wanted, found, "free space: docker system prune")


@rule("SET124", "containers-required", "error", cause=UNMET, rank=70)
def containers_required(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The settings require GPU containers, and the machine has no engine or no NVIDIA toolkit for it.

    Why: the project runs in containers with GPUs.
    How: a container engine and the NVIDIA Container Toolkit are both there.
    Fix: install what is missing.
    Sources: docs/settings.md.
    """
    need = snap.wants.need
    if need is None or not need.containers:
        return
    for called, fact in (("container engine", snap.machine.engine), ("NVIDIA Container Toolkit", snap.machine.toolkit)):
        if fact.get() is None:
            source = fact.source
            yield problem(
                need,
                "require.containers",
                called,
                (called, "", source),
                f"install it: {called}",
                message=f"the settings require GPU containers, and there is no {called}",
            )
