"""NVIDIA's real user-space driver, unpacked from Debian's non-free component into a folder; never installed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

PACKAGES = ("libnvidia-ml1", "nvidia-smi", "libcuda1")


def unpack_driver(folder: Path) -> Path:
    """Download and unpack the driver's libraries and nvidia-smi; returns the folder that stands for '/'."""
    lists, cache, root = folder / "lists", folder / "cache", folder / "root"
    for place in (lists / "partial", cache / "archives/partial", root):
        place.mkdir(parents=True)
    sources = folder / "sources.list"
    sources.write_text(f"deb [trusted=yes] {_mirror()} {_suite()} non-free\n", encoding="utf-8")
    options = [
        *("-o", f"Dir::Etc::SourceList={sources}", "-o", "Dir::Etc::SourceParts=-", "-o", f"Dir::State::Lists={lists}"),
        *("-o", f"Dir::Cache={cache}", "-o", "APT::Sandbox::User=root"),
    ]
    run = {"cwd": folder, "check": True, "capture_output": True, "timeout": 240}
    subprocess.run(["apt-get", *options, "update"], **run)
    subprocess.run(["apt-get", *options, "download", *PACKAGES], **run)
    for package in sorted(folder.glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(package), str(root)], **run)
    return root


def _mirror() -> str:
    """The mirror that this machine itself uses."""
    apt = Path("/etc/apt")
    for path in (
        *sorted(apt.glob("sources.list.d/*.sources")),
        apt / "sources.list",
        *sorted(apt.glob("sources.list.d/*.list")),
    ):
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        match = re.search(r"^URIs:\s*(\S+)|^deb (?:\[[^\]]*\] )?(\S+)", text, re.MULTILINE)
        if match:
            return match.group(1) or match.group(2)
    raise AssertionError("this machine has no apt source")


def _suite() -> str:
    match = re.search(r"^VERSION_CODENAME=(\S+)", Path("/etc/os-release").read_text(encoding="utf-8"), re.MULTILINE)
    assert match
    return match.group(1)
