"""nvidia-smi's table of every driver generation, whole or cut: header, GPUs and MIG devices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Optional

import msgspec

from envcheck.model.fact import known
from envcheck.model.machine import Gpu, MigDevice
from envcheck.readers.draft import Draft
from envcheck.readers.lines import Line

NAME = "nvidia-smi"
_SMI = re.compile(r"NVIDIA-SMI(?: version\s*:)?\s+(\d{3}\.\d[\d.]*|\d{3}\.x+)")
_DRIVER = re.compile(r"(?:Driver|KMD) [Vv]ersion\s*:\s*(\d{3}\.\d[\d.]*)")
_CUDA = re.compile(r"CUDA (?:UMD )?Version\s*:\s*(\d+\.\d+)")
_CUDA_ALONE = re.compile(r"^\s*CUDA Version\s*:\s*(\d+\.\d+)\s*$")
_LIBRARY = re.compile(r"NVML library version: (\d{3}\.\d+)")
# '|   0  NVIDIA A100-SXM4-40GB          On  | 00000000:07:00.0 Off |                    0 |'
_ROW = re.compile(
    r"^\|?\s*(\d{1,2})\s+(\S.*?)\s+(?:(On|Off|N/A|WDDM|TCC|MCDM|ERR!)(?:/(?:On|Off))?\s*\|)\s*"
    r"((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2,4}:[0-9A-Fa-f]{2}\.\d|N/A|ERR!)\s+(\S+)\s*\|\s*(\S+(?: \S+)?)"
)
_ROW_NO_MODE = re.compile(
    r"^\|\s*(\d{1,2})\s+(\S.*?)\s*\|\s*((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2,4}:[0-9A-Fa-f]{2}\.\d)\s+(\S+)\s*\|\s*(\S+)"
)
_MEMORY = re.compile(r"(\d+)\s*MiB\s*/\s*(\d+)\s*MiB")
_MIG_ROW = re.compile(r"^\|\s*(\d+)\s+(\d+|N/A)\s+(\d+|N/A)\s+(\d+)\s*\|\s*(\d+)\s*MiB\s*/\s*(\d+)\s*MiB")
_MIG_MODE = re.compile(r"\|\s+(Enabled\*?|Disabled\*?|N/A)\s*\|\s*$")
_LOST = re.compile(r"Unable to determine the device handle for (?:GPU|gpu)\s*(\S+?)\s*:\s*(.*)")


def recognises(text: str) -> bool:
    """By the program's name or a part of its table."""
    return (
        "NVIDIA-SMI" in text
        or "MiB /" in text
        or "Driver Version" in text
        or "Unable to determine" in text
        or "GPU Memory" in text
    )


def read(lines: Sequence[Line], draft: Draft) -> None:
    """Each table of the paste; several tables (host and container) are joined by GPU index."""
    gpus: list[Gpu] = []
    for line in lines:
        text = line.text
        if "ersion" in text:
            _header(line, draft)
        elif "Processes:" in text:
            draft.facts += 1  # the end of a table, which tells nothing of the machine
        if text.startswith("|") or "MiB /" in text or " Off " in text or " On " in text:
            gpu = _row(line)
            if gpu is not None:
                if any(old.index == gpu.index for old in gpus):
                    draft.add_gpus(gpus)
                    gpus = []
                gpus.append(gpu)
                continue
            if gpus:
                gpus[-1] = _more(gpus, text)
        elif (lost := _LOST.search(text)) is not None:
            draft.add_gpus([Gpu("NVIDIA GPU", pci_bus=lost.group(1), lost=lost.group(2), source=line.source)])
    draft.add_gpus(gpus)


def _header(line: Line, draft: Draft) -> None:
    text = line.text
    if (alone := _CUDA_ALONE.match(text)) is not None:
        told = re.search(r"\d+", draft.driver.source) if draft.driver else None
        if told and 0 < line.number - int(told.group()) <= 2:  # the line under 'Driver Version: …'
            draft.add_driver(None, line.source, alone.group(1))
        return
    smi, driver, cuda = _SMI.search(text), _DRIVER.search(text), _CUDA.search(text)
    if driver:
        draft.add_driver(driver.group(1), line.source, cuda.group(1) if cuda else None)
    elif cuda and (smi or "UMD" in text):
        draft.add_driver(None, line.source, cuda.group(1))
    if smi and driver and smi.group(1)[0].isdigit() and "x" not in smi.group(1):
        if smi.group(1) == driver.group(1):
            draft.put("machine", "nvml_version", smi.group(1), line.source)
            draft.machine.setdefault("driver_fault", known(None, line.source))
    elif (library := _LIBRARY.search(text)) is not None:
        draft.put("machine", "nvml_version", library.group(1), line.source)


def _row(line: Line) -> Optional[Gpu]:
    match = _ROW.match(line.text)
    details: dict[str, Any] = {}
    if match is not None:
        index, name, mode, bus, _display, ecc = match.groups()
        details["persistence"] = {"On": True, "Off": False}.get(mode)
    else:
        match = _ROW_NO_MODE.match(line.text)
        if match is None or "MiB" in match.group(2):
            return None
        index, name, bus, _display, ecc = match.groups()
    if re.fullmatch(r"N/A|ERR!|\d+", name) or re.match(r"N/A\s+N/A", name):
        return None
    if ecc.split()[0].isdigit():
        details["ecc_errors"] = int(ecc.split()[0])
    lost = "nvidia-smi shows ERR! for it" if "ERR!" in name or bus == "ERR!" else ""
    return Gpu(
        name, index=int(index), pci_bus="" if bus in ("N/A", "ERR!") else bus, lost=lost, source=line.source, **details
    )


def _more(gpus: list[Gpu], text: str) -> Gpu:
    """The lines under a GPU's first: memory, MIG mode, MIG devices."""
    gpu = gpus[-1]
    instance = _MIG_ROW.match(text)
    if instance is not None:
        index = int(instance.group(1))
        device = MigDevice(memory_mib=int(instance.group(6)))
        for place, other in enumerate(gpus):
            if other.index == index:
                changed = msgspec.structs.replace(other, mig_enabled=True, mig_devices=(*other.mig_devices, device))
                gpus[place] = changed
        return gpus[-1]
    changes: dict[str, Any] = {}
    memory = _MEMORY.search(text)
    if memory is not None and gpu.memory_mib is None:
        changes["memory_used_mib"], changes["memory_mib"] = int(memory.group(1)), int(memory.group(2))
    if "ERR!" in text and text.count("ERR!") > 1 and not gpu.lost:
        changes["lost"] = "nvidia-smi shows ERR! for its sensors"
    mode = _MIG_MODE.search(text)
    if mode is not None and gpu.mig_enabled is None and mode.group(1) != "N/A":
        changes["mig_enabled"] = mode.group(1).startswith("Enabled")
    return msgspec.structs.replace(gpu, **changes) if changes else gpu
