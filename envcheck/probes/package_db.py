"""Versions of system packages, from the package manager's own text files."""

from __future__ import annotations

import re
import threading
from typing import Optional

from envcheck.probes.tree import Tree, Unreadable

_WANTED = rb"(?:lib)?nvidia|cuda-compat|docker|containerd|runc|podman|moby|cri-o|libcudnn|libnccl|gcc-\d+$"
_DPKG = re.compile(rb"((?:" + _WANTED + rb")[^\n]*)\n((?:[^\n]+\n)*)", re.MULTILINE)
_APK = re.compile(rb"^P:((?:" + _WANTED + rb")[^\n]*)\nV:([^\n]*)", re.MULTILINE)


class PackageDatabase:
    """The packages of the driver and of container engines; read once, when first asked, by whichever thread asks."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._lock = threading.Lock()
        self._read: Optional[tuple[dict[str, str], str]] = None

    def packages(self) -> tuple[dict[str, str], str]:
        """Name to version, and the file that tells. Raises Unreadable where no database can be read."""
        with self._lock:
            if self._read is None:
                self._read = _read(self._tree)
            return self._read

    def find(self, *names: str) -> Optional[tuple[str, str]]:
        """(name and version, source) of the first of `names` that is installed; None also where nothing tells."""
        try:
            packages, source = self.packages()
        except Unreadable:
            return None
        return next(((packages[name], f"{name} in {source}") for name in names if name in packages), None)


def _read(tree: Tree) -> tuple[dict[str, str], str]:
    path = "/var/lib/dpkg/status"
    data = tree.read_bytes(path, 64 * 2**20)
    if data is not None:
        return parse_dpkg(data), path
    path = "/lib/apk/db/installed"
    data = tree.read_bytes(path, 64 * 2**20)
    if data is not None:
        return {_text(name): _text(version) for name, version in _APK.findall(data)}, path
    for path in ("/var/lib/rpm", "/usr/lib/sysimage/rpm"):
        if tree.find_names(path):
            raise Unreadable(f"{path}: RPM's database is not text")
    return {}, "no package database"


def parse_dpkg(data: bytes) -> dict[str, str]:
    """Name to version of what is installed: a removed package whose settings stayed is not."""
    found = {}
    for stanza in (b"\n" + data + b"\n").split(b"\nPackage: ")[1:]:  # much faster than an expression over all of it
        match = _DPKG.match(stanza)
        if not match:
            continue
        name, body = match.groups()
        status = re.search(rb"^Status: .* installed$", body, re.MULTILINE)
        version = re.search(rb"^Version: (?:\d+:)?(\S+)", body, re.MULTILINE)
        if status and version:
            found[_text(name)] = _text(version.group(1))
    return found


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def upstream(version: str) -> str:
    """'5:27.3.1-1~ubuntu' -> '27.3.1': the distribution's revision is no part of the program's version."""
    return re.split(r"[-+~]", version.rpartition(":")[2])[0]
