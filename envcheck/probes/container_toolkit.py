"""NVIDIA's Container Toolkit: version, configuration and CDI devices, from its files."""

from __future__ import annotations

import re
import sys
from typing import Optional

from envcheck.model.machine import ContainerToolkit
from envcheck.probes.package_db import upstream
from envcheck.probes.probe import Scene
from envcheck.probes.tree import Tree, Unreadable, shown

TOOLKIT_CONFIG = "/etc/nvidia-container-runtime/config.toml"


def find_toolkit(scene: Scene) -> Optional[ContainerToolkit]:
    """The toolkit as installed and configured; None where there is none. Raises Unreadable."""
    tree = scene.tree
    version, source = _toolkit_version(scene)
    text = tree.read_text(TOOLKIT_CONFIG, 1 << 20)
    if not version and text is None and not tree.exists("/usr/bin/nvidia-ctk"):
        return None
    mode, no_cgroups = _toolkit_settings(text) if text is not None else (None, None)
    return ContainerToolkit(
        version=version,
        mode=mode,
        no_cgroups=no_cgroups,
        cdi_devices=_cdi_devices(tree),
        config_path=TOOLKIT_CONFIG if text is not None else "",
        source=source or TOOLKIT_CONFIG,
    )


def _toolkit_version(scene: Scene) -> tuple[Optional[str], str]:
    found = scene.database.find("nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container1")
    if found:
        return upstream(found[0]), found[1]
    for folder in ("/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"):
        for path in scene.tree.under(folder, "libnvidia-container.so."):
            match = re.search(r"\.so\.(\d+\.\d+\.\d+)$", path)
            if match:
                return match.group(1), path
    return None, ""


def _toolkit_settings(text: str) -> tuple[Optional[str], Optional[bool]]:
    """Mode and no-cgroups; the toolkit's own defaults where the file doesn't say."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        told = tomllib.loads(text)
    except (ValueError, RecursionError):
        return None, None
    runtime, client = told.get("nvidia-container-runtime"), told.get("nvidia-container-cli")
    mode = runtime.get("mode", "auto") if isinstance(runtime, dict) else "auto"
    no_cgroups = client.get("no-cgroups", False) if isinstance(client, dict) else False
    return shown(str(mode)), bool(no_cgroups)


def _cdi_devices(tree: Tree) -> Optional[tuple[str, ...]]:
    """The qualified names of all CDI devices of NVIDIA kinds; None where a spec can't be read."""
    found: set[str] = set()
    for folder in ("/etc/cdi", "/var/run/cdi"):
        try:
            for name in tree.names(folder):
                if name.endswith((".yaml", ".yml", ".json")):
                    found |= parse_cdi(tree.read_text(f"{folder}/{name}") or "")
        except Unreadable:  # noqa: PERF203  # one unreadable folder makes the whole unknown
            return None
    return tuple(sorted(found))


def parse_cdi(text: str) -> set[str]:
    """Names like 'nvidia.com/gpu=0' of a spec, which nvidia-ctk writes as YAML or JSON."""
    if text.lstrip().startswith("{"):
        import json

        try:
            told = json.loads(text)
            kind, names = str(told.get("kind", "")), [str(device["name"]) for device in told.get("devices") or []]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return set()
    else:
        match = re.search(r"""^kind:\s*['"]?([\w./-]+)""", text, re.MULTILINE)
        kind = match.group(1) if match else ""
        names = re.findall(r"""^(?:\s*-\s|\s{1,6})name:\s*['"]?([\w.:-]+)""", text, re.MULTILINE)
    return {f"{shown(kind)}={shown(name)}" for name in names} if kind.startswith("nvidia.com/") else set()
