"""Asks nvidia-smi where NVML couldn't be asked; its absolute path is chosen with care, as we may be root."""

from __future__ import annotations

import csv
import re
from typing import Optional

from envcheck.model.machine import DriverFault, Gpu
from envcheck.probes.nvml import Answer
from envcheck.probes.pci import same_bus
from envcheck.probes.runner import Run, Runner
from envcheck.probes.tree import Tree
from envcheck.probes.trust import trusted

PLACES = (
    "/usr/bin",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/bin",
    "/usr/sbin",
    "/opt/nvidia/bin",
    "/run/nvidia/driver/usr/bin",
)
FIELDS = ("index", "name", "pci.bus_id", "uuid", "memory.total", "memory.used", "persistence_mode", "driver_version")
NEWER_FIELDS = (*FIELDS, "mig.mode.current", "compute_cap")
_FAULTS = (
    (r"Driver/library version mismatch", "LIB_RM_VERSION_MISMATCH"),
    (r"couldn't communicate with the NVIDIA driver|Driver Not Loaded", "DRIVER_NOT_LOADED"),
    (r"Failed to initialize NVML: Insufficient Permissions", "NO_PERMISSION"),
    (r"Failed to initialize NVML: GPU is lost", "GPU_IS_LOST"),
    (r"couldn't find libnvidia-ml|NVML Shared Library Not Found", "LIBRARY_NOT_FOUND"),
    (r"Failed to initialize NVML", "UNKNOWN"),
)


def find_smi(tree: Tree, path: str) -> Optional[str]:
    """nvidia-smi in its usual places, then on `path`; never one that somebody else could have put there."""
    for folder in (*PLACES, *path.split(":")):
        if folder.startswith("/") and trusted(tree, f"{folder}/nvidia-smi"):
            return f"{folder}/nvidia-smi"
    return None


def ask_smi(runner: Runner, program: str, *, timeout: float) -> Answer:
    """Ask by query; older releases refuse the newer fields, and are asked without them."""
    for fields in (NEWER_FIELDS, FIELDS):
        run = runner.run([program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"], timeout=timeout)
        if run.rc == 0:
            return read_rows(run, fields, program)
        if b"not a valid field" not in run.out + run.err:
            break
    return Answer(fault=_fault(run, program), trouble="" if _fault(run, program) else f"nvidia-smi {run.outcome}")


def _fault(run: Run, program: str) -> Optional[DriverFault]:
    said = (run.out + run.err).decode("utf-8", "replace")
    for pattern, code in _FAULTS:
        if re.search(pattern, said):
            return DriverFault(code=code, message=" ".join(said.split())[:300], source=program)
    return None


def read_rows(run: Run, fields: tuple[str, ...], program: str) -> Answer:
    """The rows of a query; a row of another shape is a GPU that nvidia-smi couldn't read."""
    gpus: list[Gpu] = []
    driver = None
    text = run.out.decode("utf-8", "replace")
    for cells in csv.reader(text.splitlines(), skipinitialspace=True):
        row = dict(zip(fields, (cell.strip() for cell in cells)))
        if len(cells) != len(fields) or not row["index"].isdigit():
            if cells and "No devices were found" not in text:
                gpus.append(Gpu(name="NVIDIA GPU", lost=" ".join(",".join(cells).split())[:200], source=program))
            continue
        driver = row["driver_version"] if re.match(r"\d", row["driver_version"]) else driver
        gpus.append(_gpu(row, program))
    return Answer(gpus=tuple(gpus), count=len(gpus), driver=driver)


def _gpu(row: dict[str, str], program: str) -> Gpu:
    capability = row.get("compute_cap", "")
    return Gpu(
        name=row["name"],
        index=int(row["index"]),
        capability=capability if re.fullmatch(r"\d+\.\d", capability) else None,
        memory_mib=_number(row["memory.total"]),
        memory_used_mib=_number(row["memory.used"]),
        pci_bus=same_bus(row["pci.bus_id"]),
        uuid=row["uuid"],
        mig_enabled={"Enabled": True, "Disabled": False}.get(row.get("mig.mode.current", "")),
        persistence={"Enabled": True, "Disabled": False}.get(row["persistence_mode"]),
        kernel_driver="nvidia",
        source=program,
    )


def _number(text: str) -> Optional[int]:
    return int(text) if text.isdigit() else None
