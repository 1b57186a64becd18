"""The container that we stand in, by what engines leave inside."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Optional

from envcheck.model.machine import Container
from envcheck.probes.probe import Scene
from envcheck.probes.tree import Tree


def find_container(scene: Scene) -> tuple[Optional[Container], str]:
    """The container and what tells of it; None where we stand in none."""
    tree, env = scene.tree, scene.env
    engine, source = find_container_engine(tree, env)
    if not engine:
        return None, "/.dockerenv, /run/.containerenv, /proc/1/cgroup, environment"
    nodes = any(re.fullmatch(r"nvidia\d+|nvidiactl|dxg|nvgpu|nvhost-gpu", name) for name in tree.find_names("/dev"))
    return Container(
        engine=engine,
        gpu_devices=nodes,
        docker_socket=any(tree.there(path) for path in ("/var/run/docker.sock", "/run/docker.sock")),
        source=source,
    ), source


def find_container_engine(tree: Tree, env: Mapping[str, str]) -> tuple[str, str]:
    """The engine of the container that we stand in and what tells it; two empty words: we stand in none."""
    version = tree.find_text("/proc/version", 512) or ""
    if "gVisor" in version or tree.there("/proc/gvisor"):
        return "gvisor", "/proc/version"
    if "APPTAINER_CONTAINER" in env or "SINGULARITY_CONTAINER" in env or tree.there("/.singularity.d"):
        return "apptainer", "/.singularity.d"
    groups = tree.find_text("/proc/1/cgroup", 65536) or ""
    if "KUBERNETES_SERVICE_HOST" in env or tree.there("/var/run/secrets/kubernetes.io") or "kubepods" in groups:
        return "kubernetes", "KUBERNETES_SERVICE_HOST" if "KUBERNETES_SERVICE_HOST" in env else "/proc/1/cgroup"
    if tree.there("/run/.containerenv") or env.get("container") == "podman":
        return "podman", "/run/.containerenv"
    if tree.there("/.dockerenv") or re.search(r"/docker[-/]", groups):
        return "docker", "/.dockerenv"
    for engine, pattern in (("podman", "libpod"), ("containerd", "containerd"), ("lxc", r"/lxc[./]")):
        if re.search(pattern, groups):
            return engine, "/proc/1/cgroup"
    if env.get("container"):
        return {"lxc": "lxc"}.get(env["container"], "unknown"), "$container"
    # Engines that leave no name: the root is an overlay, and there is no init to boot a machine with.
    root = re.search(r"^\S+ / (\S+) ", tree.find_text("/proc/mounts", 65536) or "", re.MULTILINE)
    if root and root.group(1) == "overlay" and not tree.there("/sbin/init"):
        return "unknown", "/proc/mounts"
    return "", ""
