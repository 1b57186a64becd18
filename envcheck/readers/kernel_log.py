"""The kernel's side: dmesg and journal lines, Xid events, /proc/driver/nvidia/version, lsmod, lspci, uname."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envcheck.model.machine import Gpu, XidEvent
from envcheck.readers.draft import Draft
from envcheck.readers.lines import Line

NAME = "kernel log"
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([\w:.]+)\): (\d+)(?:, (.*))?")
_PROC = re.compile(
    r"NVRM version: NVIDIA UNIX (?:(Open) )?(?:(?:x86_64|aarch64) )?(?:(Open) )?Kernel Module(?: for \w+)?\s+(\d{3}\.[\d.]+)"  # noqa: E501
)
_API = re.compile(r"NVRM: API mismatch: the client has the version (\d{3}\.[\d.]+)")
_API_KERNEL = re.compile(r"(?:NVRM: )?this kernel module has the version (\d{3}\.[\d.]+)")
_LSMOD = re.compile(r"^(nvidia(?:_\w+)?|nouveau|amdgpu|i915|xe)\s+\d+\s+\d+")
_LSPCI = re.compile(r"(?:VGA compatible controller|3D controller|Display controller)(?: \[\w+\])?: (.*)")
_ROCMINFO = re.compile(r"^\s*Name:\s+(gfx\d\w*)\s*$")
_LSPCI_NAME = re.compile(r"\[((?:GeForce|Tesla|Quadro|RTX|GTX|TITAN|A\d|H\d|L\d|GRID)[^\]]*)\]")
_PCI_ID = re.compile(r"\[10de:([0-9a-f]{4})\]|\bDevice ([0-9a-f]{4})\b", re.IGNORECASE)
_IN_USE = re.compile(r"Kernel driver in use: (\S+)")
_UNAME = re.compile(r"^Linux \S+ (\d\.\d+\S*) .*(x86_64|aarch64)")
_SB = re.compile(r"^SecureBoot (enabled|disabled)")
_LOADING = re.compile(
    r"NVRM: loading NVIDIA UNIX (?:(Open) )?(?:\w+ )?(?:(Open) )?Kernel Module(?: for \w+)?\s+(\d{3}\.[\d.]+)"
)
_TEGRA = re.compile(r"# R(\d+) \(release\), REVISION: ([\d.]+)")
_CURRENT_MODULE = re.compile(r"^version:\s+(\d{3}\.\d[\d.]*)$")


def recognises(text: str) -> bool:
    """By the kernel module's words."""
    return any(
        word in text
        for word in (
            "NVRM",
            "nouveau",
            "Xid",
            "controller",
            "Kernel driver in use",
            "SecureBoot",
            "Linux ",
            "(release), REVISION",
            "gfx",
            "nvidia_uvm",
            "kernel module has the version",
        )
    )


def read(lines: Sequence[Line], draft: Draft) -> None:
    """Line by line."""
    gpus: list[Gpu] = []
    modules: list[str] = []
    for line in lines:
        text = line.text
        if "NVRM" in text or "kernel module" in text:
            _nvrm(text, line, draft)
        elif (loaded := _LSMOD.match(text)) is not None:
            modules.append(loaded.group(1))
        elif "controller" in text and (pci := _LSPCI.search(text)) is not None:
            _pci(pci.group(1), line, gpus)
        elif "gfx" in text and (rocm := _ROCMINFO.match(text)) is not None:
            gpus.append(Gpu("AMD GPU", vendor="amd", architectures=(rocm.group(1),), source=line.source))
        elif gpus and (driver := _IN_USE.search(text)) is not None:
            import msgspec

            gpus[-1] = msgspec.structs.replace(gpus[-1], kernel_driver=driver.group(1))
        elif (uname := _UNAME.match(text)) is not None:
            draft.put("machine", "kernel", uname.group(1), line.source)
            draft.put("machine", "arch", uname.group(2), line.source)
            if "microsoft" in uname.group(1).lower():
                draft.put("machine", "wsl", 2 if "WSL2" in uname.group(1) else 1, line.source)
        elif (boot := _SB.match(text)) is not None:
            draft.put("machine", "secure_boot", boot.group(1) == "enabled", line.source)
        elif (tegra := _TEGRA.search(text)) is not None:
            draft.put("machine", "jetson", f"L4T {tegra.group(1)}.{tegra.group(2)}", line.source)
    if modules:
        draft.put("machine", "modules", tuple(sorted(set(modules))), "lsmod in the paste")
    draft.add_gpus(gpus)


def _nvrm(text: str, line: Line, draft: Draft) -> None:
    if (xid := _XID.search(text)) is not None:
        draft.facts += 1
        draft.xids.append(XidEvent(int(xid.group(2)), (xid.group(3) or "").strip(), line.source))
    elif (proc := _PROC.search(text) or _LOADING.search(text)) is not None:
        draft.add_driver(
            proc.group(3), line.source, flavour="open" if proc.group(1) or proc.group(2) else "proprietary"
        )
    elif (client := _API.search(text)) is not None:
        draft.put("machine", "nvml_version", client.group(1), line.source)
    elif (kernel := _API_KERNEL.search(text)) is not None:
        draft.add_driver(kernel.group(1), line.source)


def _pci(text: str, line: Line, gpus: list[Gpu]) -> None:
    low = text.lower()
    name = _LSPCI_NAME.search(text)
    if "nvidia" in low:
        ident = _PCI_ID.search(text)
        pci = (ident.group(1) or ident.group(2)).upper() if ident else None
        gpus.append(Gpu(name.group(1) if name else "NVIDIA GPU", pci_id=pci, source=line.source))
    elif "amd" in low or "ati tech" in low:
        gpus.append(Gpu("AMD GPU", vendor="amd", source=line.source))
    elif "intel" in low:
        gpus.append(Gpu("Intel GPU", vendor="intel", source=line.source))
