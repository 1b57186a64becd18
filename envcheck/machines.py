"""The machine that `--on`, `--gpu`, `--driver` and `--gpus` name: this, a saved one, a cloud type, a description."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import msgspec

from envcheck.errors import UnknownName, UsageError
from envcheck.inspection import Description
from envcheck.model.fact import known
from envcheck.model.finding import Report
from envcheck.model.machine import Driver, Gpu, Machine
from envcheck.model.snapshot import Snapshot

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.matrix.rows import GpuModel, Instance

ARM = re.compile(r"\b(T4G|GH200|GB200|GB300|GB10)\b", re.IGNORECASE)
MAX_GPUS = 4096
MAX_BYTES = 64 << 20


def describe_machine(said: Description, matrix: Matrix, inspect_this: Any) -> Machine:
    """The machine; `inspect_this()` gives the live one's snapshot. Raises UsageError or UnknownName."""
    machine = _on(said.on, matrix, inspect_this) if said.on else Machine()
    if said.gpu or said.gpus is not None:
        machine = _with_gpus(machine, said, matrix)
    if said.driver:
        machine = with_driver(machine, said.driver, matrix)
    if said.arch:
        machine = msgspec.structs.replace(machine, arch=known(_arch(said.arch), "--arch"))
    return machine


def machine_name(said: Description) -> str:
    """The machine as the report names it."""
    parts = [said.on] if said.on else []
    if said.gpu:
        parts.append(f"{said.gpus} × {said.gpu}" if said.gpus else said.gpu)
    if said.driver:
        parts.append(f"driver {said.driver}")
    return ", ".join(parts)


def _on(text: str, matrix: Matrix, inspect_this: Any) -> Machine:
    if text in ("this", "host"):
        snap: Snapshot = inspect_this()
        return snap.machine
    path = Path(text)
    if path.is_file():
        return _from_file(path, matrix)
    instance = matrix.instance(text)
    if instance is not None:
        return from_instance(instance, matrix)
    if text.endswith((".json", ".txt", ".log")) or "/" in text:
        raise UsageError(f"there is no file {text}", "Make one with `envcheck snapshot -o FILE` on that machine.")
    known_names = [f"{row.provider}:{row.name}" for row in matrix.instances]
    plain = [name for name in known_names if name.partition(":")[2].lower() == text.lower()]
    if len(plain) == 1:
        return from_instance(matrix.get_instance(plain[0]), matrix)
    raise UnknownName("machine", text, [*known_names, "this"], "envcheck machines")


def _from_file(path: Path, matrix: Matrix) -> Machine:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path} is larger than any snapshot", "Name a snapshot file.")
        data = path.read_bytes()
    except OSError as failure:
        raise UsageError(f"can't read {path}: {failure.strerror}", "Check the name and your permission.") from failure
    snap = decode_snapshot(data)
    if snap is None:
        from envcheck.targets import read_paste

        snap = read_paste(data, str(path), matrix)
        if not (snap.machine.driver.known or snap.machine.gpus.known):
            raise UsageError(f"{path} tells no machine", "Make one with `envcheck snapshot -o FILE` on that machine.")
    return snap.machine


def decode_snapshot(data: bytes) -> Optional[Snapshot]:
    """A saved snapshot, or the one inside a JSON report; None for anything else."""
    if not data.lstrip().startswith(b"{"):
        return None
    for kind in (Snapshot, Report):
        try:
            found = msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, RecursionError):
            continue
        if isinstance(found, Report):
            return found.snapshot
        if isinstance(found, Snapshot) and found.origin.kind != "unknown":
            return found
    return None


def from_instance(row: Instance, matrix: Matrix) -> Machine:
    """What the matrix knows of a cloud type. Its driver is the image's that one boots: unknown unless told."""
    name = f"{row.provider}:{row.name}"
    source = f"{name} (matrices/instances.toml)"
    model = matrix.find_gpu(row.model or row.gpu)
    changes: dict[str, Any] = {
        "os": known("linux", source),
        "cloud": known(name, source),
        "arch": known("aarch64" if ARM.search(f"{row.gpu} {row.model}") else "x86_64", source),
    }
    if row.count and row.count == int(row.count) and row.count >= 1:
        gpu = _gpu(row.gpu, model, row.memory_gb_each, source)
        changes["gpus"] = known(_numbered(gpu, int(row.count)), source)
    if row.ram_gb is not None:
        changes["ram_bytes"] = known(int(row.ram_gb * 2**30), source)
    link = row.interconnect.lower()
    if link:
        kind = "nvswitch" if "nvswitch" in link else "nvlink" if "nvlink" in link else None
        changes["interconnect"] = known(kind, source) if kind else Machine().interconnect
    return Machine(**changes)


def _with_gpus(machine: Machine, said: Description, matrix: Matrix) -> Machine:
    count = said.gpus if said.gpus is not None else 1
    if not 0 < count <= MAX_GPUS:
        raise UsageError(f"{count} GPUs is no machine", f"Say --gpus 1 to {MAX_GPUS}.")
    if said.gpu:
        source = "--gpu"
        gpu = _gpu(said.gpu, matrix.get_gpu(said.gpu), None, source)
        there = len(machine.gpus.find() or ())
        count = said.gpus if said.gpus is not None else max(there, 1)
    else:
        have = machine.gpus.find()
        if not have:
            raise UsageError("--gpus without --gpu says how many, but not of what", 'Add --gpu "H100 80GB".')
        source, gpu = "--gpus", have[0]
    return msgspec.structs.replace(machine, gpus=known(_numbered(gpu, count), source))


def _gpu(label: str, model: Optional[GpuModel], memory_gb: Optional[float], source: str) -> Gpu:
    memory = model.memory_gb if model and model.memory_gb else memory_gb
    return Gpu(
        name=model.name if model else label,
        vendor="amd" if re.match(r"(amd|radeon|mi\d{2,3})\b", label, re.IGNORECASE) else "nvidia",
        capability=model.capability if model else None,
        memory_mib=int(memory * 1024) if memory else None,
        source=source,
    )


def _numbered(gpu: Gpu, count: int) -> tuple[Gpu, ...]:
    return tuple(msgspec.structs.replace(gpu, index=index, uuid="", pci_bus="") for index in range(count))


def with_driver(machine: Machine, text: str, matrix: Matrix) -> Machine:
    """The machine with another driver. Raises UsageError for what is no version."""
    if not re.fullmatch(r"\d{3}(\.\d{1,3}){0,2}", text):
        raise UsageError(f"{text!r} is no driver version", "Say --driver 535.183.01, or its branch: --driver 535.")
    os = machine.os.find() or "linux"
    driver = Driver(text, cuda=matrix.driver_cuda(text, os), source="--driver")
    # What was measured of the old driver (its libraries, packages, faults) isn't true of this one.
    fresh = Machine()
    return msgspec.structs.replace(
        machine,
        driver=known(driver, "--driver"),
        driver_fault=known(None, "--driver"),
        driver_packages=fresh.driver_packages,
        nvml_version=fresh.nvml_version,
        libcuda_version=fresh.libcuda_version,
        modules=fresh.modules,
    )


def _arch(text: str) -> str:
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(text, text)


def pair(snap: Snapshot, machine: Machine, name: str) -> Snapshot:
    """The stack of `snap` on `machine`; what the file itself says of the machine (its /dev/shm) stays."""
    own = snap.machine
    if own.shm_bytes.known and snap.recipe is not None:
        machine = msgspec.structs.replace(machine, shm_bytes=own.shm_bytes)
    remarks = snap.remarks
    if machine.container.find() is not None and snap.origin.kind not in ("host", "report"):
        # What we stand in is not what this stack will run in.
        machine = msgspec.structs.replace(machine, container=Machine().container)
        remarks = (*remarks, "envcheck stands in a container: GPUs that weren't passed into it are not seen")
    libraries = snap.stack.libraries
    stack = snap.stack
    if libraries.known and libraries.value:
        # A driver's libraries belong to the machine, not to what runs on it.
        kept = tuple(library for library in libraries.value if library.origin not in ("driver", "wsl"))
        stack = msgspec.structs.replace(stack, libraries=known(kept, libraries.source))
    origin = msgspec.structs.replace(snap.origin, name=f"{snap.origin.name or snap.origin.kind} on {name}")
    return msgspec.structs.replace(snap, machine=machine, stack=stack, origin=origin, remarks=remarks)
