"""nvidia-smi's other outputs: -q, -L, --query-gpu as csv."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from envcheck.model.machine import FabricManager, Gpu, MigDevice
from envcheck.readers.draft import Draft
from envcheck.readers.lines import Line

NAME = "nvidia-smi -q"
_LISTED = re.compile(r"\bGPU (\d+): (.+?) \(UUID: ?([^)]*)\)?")
_MIG = re.compile(r"^\s*MIG (\S+)\s+Device\s+(\d+): \(UUID: ?([^)]*)\)?")
_BUS = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s*$")
_PAIR = re.compile(r"^(\s*)(\S.*?)\s*:\s(.*)$")
_SECTION = re.compile(r"^(\s*)([A-Z][\w ()/&.-]*?)\s*$")
_NUMBER = re.compile(r"\d+")
_UNIT = re.compile(r"\s*\[[^\]]*\]")
_CSV = {
    "name": "name",
    "gpu_name": "name",
    "index": "index",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "driver_version": "driver",
    "memory.total": "memory",
    "compute_cap": "capability",
    "pci.bus_id": "bus",
    "gpu_bus_id": "bus",
    "mig.mode.current": "mig",
    "memory.used": "used",
    "persistence_mode": "persistence",
}


def recognises(text: str) -> bool:
    """By its headings."""
    return (
        "NVSMI LOG" in text
        or "(UUID" in text
        or "Product Name" in text
        or "Attached GPUs" in text
        or "--query-gpu" in text
        or "driver_version" in text
        or "compute_cap" in text
        or "Addressing Mode" in text
    )


def read(lines: Sequence[Line], draft: Draft) -> None:
    """The three of them; a paste may hold all."""
    _read_list(lines, draft)
    _read_query(lines, draft)
    _read_csv(lines, draft)


def _read_list(lines: Sequence[Line], draft: Draft) -> None:
    gpus: list[Gpu] = []
    for line in lines:
        if "UUID" not in line.text:
            continue
        if (gpu := _LISTED.search(line.text)) is not None:
            gpus.append(Gpu(gpu.group(2), index=int(gpu.group(1)), uuid=gpu.group(3), source=line.source))
        elif gpus and (mig := _MIG.match(line.text)) is not None:
            device = MigDevice(mig.group(1), uuid=mig.group(3))
            gpus[-1] = msgspec.structs.replace(gpus[-1], mig_enabled=True, mig_devices=(*gpus[-1].mig_devices, device))
    draft.add_gpus(gpus)


def _read_query(lines: Sequence[Line], draft: Draft) -> None:
    gpus: list[Gpu] = []
    current: dict[str, Any] = {}
    path: list[tuple[int, str]] = []
    for line in lines:
        text = line.text
        if (bus := _BUS.match(text)) is not None:
            _finish(current, gpus)
            current, path = {"pci_bus": bus.group(1), "source": line.source}, []
            continue
        pair = _PAIR.match(text)
        if pair is None:
            section = _SECTION.match(text) if text[:1] == " " else None
            if section is not None:
                indent = len(section.group(1))
                path = [entry for entry in path if entry[0] < indent] + [(indent, section.group(2))]
            continue
        indent, name, value = len(pair.group(1)), pair.group(2), pair.group(3).strip()
        path = [entry for entry in path if entry[0] < indent]
        sections = [entry[1] for entry in path]
        if name == "Driver Version" and indent == 0:
            if re.match(r"\d{3}\.", value):
                draft.add_driver(value, line.source)
        elif name in ("CUDA Version", "CUDA UMD Version") and indent == 0 and re.match(r"\d+\.\d", value):
            draft.add_driver(None, line.source, value)
        elif name == "Product Name" and "name" in current:
            _finish(current, gpus)
            current = {"name": value, "source": line.source}
        else:
            _detail(current, name, value, sections, line, draft)
    _finish(current, gpus)
    draft.add_gpus(gpus)


def _detail(current: dict[str, Any], name: str, value: str, sections: list[str], line: Line, draft: Draft) -> None:
    section = sections[-1] if sections else ""
    number = _NUMBER.match(value)
    if current and "MIG Device" in sections:  # what stands below is of the instance, not of the GPU
        if name == "Total" and section.startswith("FB Memory") and number:
            instances = current.get("mig_devices", ())
            current["mig_devices"] = (*instances, MigDevice(memory_mib=int(number.group())))
        return
    if name == "Product Name":
        current.setdefault("source", line.source)
        current["name"] = value
    elif not current:
        return
    elif name == "GPU UUID":
        current["uuid"] = value
    elif name == "Persistence Mode":
        current["persistence"] = value == "Enabled"
    elif name == "Current" and section == "MIG Mode":
        current["mig_enabled"] = {"Enabled": True, "Disabled": False}.get(value)
    elif name == "Device Id" and section == "PCI":
        current["pci_id"] = value[2:6].upper() if value.startswith("0x") else None
    elif section.startswith("FB Memory Usage") and number:
        if name == "Total":
            current["memory_mib"] = int(number.group())
        elif name == "Used":
            current["memory_used_mib"] = int(number.group())
    elif name == "Pending" and section in ("Remapped Rows", "Row Remapper", "Retired Pages"):
        current["remap_pending"] = {"yes": True, "no": False}.get(value.lower())
    elif name == "Remapping Failure Occurred" and section == "Remapped Rows":
        current["remap_failed"] = {"yes": True, "no": False}.get(value.lower())
    elif name.startswith("Pending Page Blacklist"):
        current["remap_pending"] = {"yes": True, "no": False}.get(value.lower())
    elif name in ("DRAM Uncorrectable", "SRAM Uncorrectable") and section == "Volatile" and number:
        current["ecc_errors"] = current.get("ecc_errors", 0) + int(number.group())
    elif name == "State" and section == "Fabric" and value not in ("N/A", ""):
        draft.put("machine", "fabric_manager", FabricManager(state=value.lower()), line.source)


def _finish(current: dict[str, Any], gpus: list[Gpu]) -> None:
    if current.get("name") or current.get("pci_bus"):
        gpus.append(Gpu(**{"name": "NVIDIA GPU", "index": len(gpus), **current}))


def _read_csv(lines: Sequence[Line], draft: Draft) -> None:
    columns: list[str] = []
    gpus: list[Gpu] = []
    for line in lines:
        text = line.text
        if "--query-gpu" in text:
            asked = re.search(r"--query-gpu[= ]([\w.,]+)", text)
            columns = asked.group(1).split(",") if asked else []
            draft.add_gpus(gpus)
            gpus = []
            continue
        cells = [cell.strip() for cell in text.split(",")]
        names = [_UNIT.sub("", cell) for cell in cells]
        if sum(name in _CSV for name in names) >= max(1, len(names) // 2) and names[0] in _CSV:
            columns = names
        elif columns and len(cells) == len(columns) and (len(columns) > 1 or _lonely(columns[0], text)):
            gpu = _csv_row(dict(zip((_CSV.get(name, "") for name in columns), cells)), line, draft, len(gpus))
            if gpu is not None:
                gpus.append(gpu)
        elif columns:
            columns = []
    draft.add_gpus(gpus)


def _lonely(column: str, text: str) -> bool:
    """A row of a single column must look like its values."""
    return bool(
        {
            "name": re.match(r"(NVIDIA|Tesla|GeForce|Quadro) ", text),
            "driver_version": re.fullmatch(r"\d{3}\.[\d.]+", text),
            "compute_cap": re.fullmatch(r"\d{1,2}\.\d", text),
        }.get(column)
    )


def _csv_row(cells: dict[str, str], line: Line, draft: Draft, place: int) -> Any:
    if re.match(r"\d{3}\.\d", cells.get("driver", "")):
        draft.add_driver(cells["driver"], line.source)
    name = cells.get("name", "")
    if not name and "capability" not in cells and "uuid" not in cells:
        return None
    details: dict[str, Any] = {}
    for key, field in (("memory", "memory_mib"), ("used", "memory_used_mib")):
        if (number := _NUMBER.match(cells.get(key, ""))) is not None:
            details[field] = int(number.group())
    if re.fullmatch(r"\d{1,2}\.\d", cells.get("capability", "")):
        details["capability"] = cells["capability"]
    if cells.get("mig") in ("Enabled", "Disabled"):
        details["mig_enabled"] = cells["mig"] == "Enabled"
    index = int(cells["index"]) if cells.get("index", "").isdigit() else place
    return Gpu(
        name, index=index, uuid=cells.get("uuid", ""), pci_bus=cells.get("bus", ""), source=line.source, **details
    )
