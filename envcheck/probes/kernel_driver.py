"""The NVIDIA kernel module as the kernel shows it, without any library of the driver."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Optional

from envcheck.model.fact import Fact, known, unknown
from envcheck.model.machine import DeviceNode, Driver, XidEvent
from envcheck.probes.tree import Tree, Unreadable, shown

MODULES = frozenset(
    (
        *("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem", "nvidia_fs", "nvidia_vgpu_vfio"),
        *("gdrdrv", "nvgpu", "nouveau", "nova_core", "amdgpu", "radeon", "i915", "xe", "vfio_pci"),
    )
)
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_VERSION = re.compile(r"NVRM version:.*?(Open )?Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")
_XID = re.compile(r"NVRM: Xid \([^)]*\): (\d{1,4}),? ?([^\n]*)")
KMSG_CAP = 4 * 2**20
KMSG_SECONDS = 0.5


def inspect_modules(tree: Tree) -> Fact[Any]:
    """The loaded modules of the GPU kind."""
    text = tree.find_text("/proc/modules", 1 << 20)
    if text is not None:
        loaded = {line.partition(" ")[0] for line in text.splitlines()}
        return known(tuple(sorted(loaded & MODULES)), "/proc/modules")
    built_in = tree.find_names("/sys/module")  # a kernel without loadable modules has no /proc/modules
    if built_in:
        return known(tuple(sorted(MODULES.intersection(built_in))), "/sys/module")
    return unknown("loaded kernel modules: neither /proc/modules nor /sys/module can be read", "/proc/modules")


def find_driver(tree: Tree) -> Optional[Driver]:
    """Version and flavour of the loaded module; None where the kernel shows none."""
    path = "/proc/driver/nvidia/version"
    match = _VERSION.search(tree.find_text(path, 4096) or "")
    if match:
        return Driver(match.group(2), "open" if match.group(1) else "proprietary", source=path)
    path = "/sys/module/nvidia/version"
    version = (tree.find_text(path, 256) or "").strip()
    if re.fullmatch(r"\d+(\.\d+)+", version):
        # The proprietary module taints the kernel (P), the open one is under the GPL.
        taint = tree.find_text("/sys/module/nvidia/taint", 64)
        return Driver(version, None if taint is None else "proprietary" if "P" in taint else "open", source=path)
    return None


def inspect_secure_boot(tree: Tree) -> Fact[Any]:
    """The state from the EFI variable; False where the machine didn't boot by EFI."""
    try:
        data = tree.read_bytes(SECURE_BOOT, 16)
        if data:
            return known(data[-1] == 1, SECURE_BOOT)
        if not tree.exists("/sys/firmware/efi") and tree.exists("/sys/firmware"):
            return known(False, "/sys/firmware: no EFI")
    except Unreadable as failure:
        return unknown(f"Secure Boot: {failure}")
    return unknown("Secure Boot: the EFI variables aren't visible here", SECURE_BOOT)


def inspect_nodes(tree: Tree) -> Fact[Any]:
    """NVIDIA's device files, WSL's too. Whether we may use one is asked without opening it: opening wakes the GPU."""
    try:
        names = [name for name in tree.names("/dev") if re.fullmatch(r"nvidia\S*|dxg", name)]
        paths = [f"/dev/{name}" for name in names if name != "nvidia-caps"]
        if "nvidia-caps" in names:
            paths += [f"/dev/nvidia-caps/{name}" for name in tree.find_names("/dev/nvidia-caps")]
        return known(tuple(node for path in paths for node in _node(tree, path)), "/dev")
    except Unreadable as failure:
        return unknown(f"NVIDIA device nodes: {failure}", "/dev")


def _node(tree: Tree, path: str) -> list[DeviceNode]:
    try:
        found = tree.stat(path)
    except Unreadable:
        return [DeviceNode(shown(path))]
    if found is None:
        return []
    if tree.live:
        usable: Optional[bool] = os.access(path, os.R_OK | os.W_OK)
    else:
        usable = True if found.st_mode & 0o006 == 0o006 else None  # whose groups would it be?
    return [DeviceNode(shown(path), usable, f"{found.st_mode & 0o7777:04o}")]


def inspect_xids(tree: Tree, module_loaded: bool) -> Fact[Any]:
    """Xid lines of this boot's kernel log; read only where an NVIDIA module is loaded that could write them."""
    if not module_loaded:
        return known((), "no NVIDIA module is loaded")
    for read, source in ((_read_kmsg, "/dev/kmsg"), (_read_log, "/var/log/kern.log")):
        text = read(tree)
        if text is not None:
            return known(tuple(parse_xids(text, source)), source)
    return unknown("kernel log: neither /dev/kmsg nor /var/log/kern.log may be read", "/dev/kmsg")


def parse_xids(text: str, source: str) -> list[XidEvent]:
    """The Xid events of a kernel log, each line once."""
    found = {match.group(): match for match in _XID.finditer(text)}
    return [XidEvent(int(m.group(1)), " ".join(m.group(2).split())[:300], source) for m in found.values()]


def _read_kmsg(tree: Tree) -> Optional[str]:
    """The ring buffer, never waiting; None where it may not be read."""
    if not tree.live:
        return None
    try:
        handle = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    parts, size, ends = [], 0, time.monotonic() + KMSG_SECONDS
    try:
        while size < KMSG_CAP and time.monotonic() < ends:
            try:
                record = os.read(handle, 8192)
            except BrokenPipeError:
                continue  # overwritten while we read: the next read goes on after the gap
            except BlockingIOError:
                break
            size += len(record)
            if b"Xid" in record:
                parts.append(record)
    except OSError:
        return None
    finally:
        os.close(handle)
    return b"".join(parts).decode("utf-8", "replace")


def _read_log(tree: Tree) -> Optional[str]:
    text = tree.find_text("/var/log/kern.log", 32 * 2**20)
    if text is None:
        return None
    return text[max(0, text.rfind("Linux version ")) :]  # what was before belongs to an earlier boot
