"""GPUs as the PCI bus shows them: also those that no driver holds."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from envcheck.model.machine import Gpu
from envcheck.probes.tree import Tree

DEVICES = "/sys/bus/pci/devices"
VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}
_TITLES = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


class Bus(NamedTuple):
    """What the bus holds: GPUs, and whether NVSwitches are among the rest."""

    gpus: tuple[Gpu, ...]
    nvswitch: bool


def inspect_bus(tree: Tree) -> Optional[Bus]:
    """The GPUs of the bus; None where sysfs isn't there to tell. Raises Unreadable."""
    names = tree.names(DEVICES)
    if not names and not tree.exists("/sys/bus"):
        return None
    gpus, nvswitch = [], False
    amd = None
    for name in names:
        place = f"{DEVICES}/{name}"
        vendor_id = (tree.find_text(f"{place}/vendor", 32) or "").strip().lower()
        vendor = VENDORS.get(vendor_id)
        if vendor is None:
            continue
        kind = (tree.find_text(f"{place}/class", 32) or "").strip().lower()
        if vendor == "nvidia" and kind.startswith("0x0680"):
            nvswitch = True
        if not re.match(r"0x03|0x1200", kind) or (vendor == "intel" and not kind.startswith("0x03")):
            continue  # 0x1200: processing accelerators, as some AMD Instinct are
        if vendor == "amd" and amd is None:
            amd = _amd_architectures(tree)
        gpus.append(_gpu(tree, name, vendor, amd or {}))
    return Bus(tuple(gpus), nvswitch)


def _gpu(tree: Tree, name: str, vendor: str, amd: dict[str, str]) -> Gpu:
    place = f"{DEVICES}/{name}"
    device = (tree.find_text(f"{place}/device", 32) or "").strip().lower()[2:].upper()
    vendor_id = next(key for key, value in VENDORS.items() if value == vendor)[2:]
    driver = (tree.link(f"{place}/driver") or "").rpartition("/")[2]
    memory = (tree.find_text(f"{place}/mem_info_vram_total", 32) or "").strip()
    architecture = amd.get(name.lower())
    return Gpu(
        name=f"{_TITLES[vendor]} GPU {vendor_id}:{device or '????'}",
        vendor=vendor,
        pci_id=device or None,
        pci_bus=name.lower(),
        memory_mib=int(memory) // 2**20 if memory.isdigit() else None,
        kernel_driver=driver,
        architectures=(architecture,) if architecture else (),
        source=place,
    )


def _amd_architectures(tree: Tree) -> dict[str, str]:
    """PCI address to gfx name, from the compute driver's topology (90402 is gfx942, 90010 is gfx90a)."""
    found = {}
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    for node in tree.find_names(nodes):
        text = tree.find_text(f"{nodes}/{node}/properties", 65536) or ""
        said = {key: int(value) for key, value in re.findall(r"^(\w+) (\d{1,18})$", text, re.MULTILINE)}
        version, location = said.get("gfx_target_version", 0), said.get("location_id", 0)
        if version:
            address = f"{said.get('domain', 0):04x}:{location >> 8 & 255:02x}:{location >> 3 & 31:02x}.{location & 7}"
            found[address] = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
    return found


def same_bus(address: str) -> str:
    """'00000000:3B:00.0' (NVML) and '0000:3b:00.0' (sysfs) in one form."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain[-4:]}:{rest}" if len(domain) > 4 else address.lower()
