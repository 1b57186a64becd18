"""Kubernetes objects with a pod template to snapshots, one a container."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Optional

from envcheck.model.fact import Fact, known, not_told
from envcheck.model.recipe import Base
from envcheck.model.snapshot import Snapshot
from envcheck.readers.services import DEFAULT_SHM, container_snapshot, parse_size
from envcheck.readers.yaml_lines import Node, load_all, mapping, sequence

GPU_RESOURCE = re.compile(r"(?:nvidia|amd)\.com/(?:gpu|mig-.*)|.*/gpu.*|gpu\.intel\.com/.*")


def read_pod(text: str, *, name: str) -> list[Snapshot]:
    """One snapshot a container of any object that holds a pod template. Raises YamlError."""
    found = []
    for document in load_all(text):
        for spec in _pod_specs(document, 0):
            containers = sequence(spec.get("containers"))
            for item, line in zip(containers, containers.lines):
                found.append(_pod_container(mapping(item), spec, line, name))
    return found


def _pod_specs(value: Any, depth: int) -> Iterator[Node]:
    if depth > 20:
        return
    if isinstance(value, Node):
        if isinstance(value.get("containers"), list):
            yield value
            return
        for child in value.values():
            yield from _pod_specs(child, depth + 1)
    elif isinstance(value, list):
        for child in value:
            yield from _pod_specs(child, depth + 1)


def _pod_container(body: Node, spec: Node, line: int, name: str) -> Snapshot:
    resources = mapping(body.get("resources"))
    asked, why = False, f"{name}:{body.lines.get('resources', line)}"
    for key in ("limits", "requests"):
        limits = mapping(resources.get(key))
        for resource, amount in limits.items():
            if GPU_RESOURCE.fullmatch(str(resource)) and str(amount) not in ("0", "None"):
                asked, why = True, f"{name}:{limits.lines[resource]}"
    if sequence(resources.get("claims")):  # dynamic resource allocation: which device it is stands elsewhere
        asked, why = True, f"{name}:{resources.lines['claims']}"
    env = {}
    for item in sequence(body.get("env")):
        row = mapping(item)
        if row.get("name") and row.get("value") is not None:
            env[str(row["name"])] = str(row["value"])
    host_ipc = spec.get("hostIPC") is True
    shm: Fact[int] = not_told("/dev/shm size")
    if not host_ipc:
        told = _pod_shm(body, spec, name)
        shm = told if told is not None else known(DEFAULT_SHM, f"{name}:{line} (the engine's default)")
    reference = str(body.get("image", ""))
    selector = mapping(spec.get("nodeSelector"))
    arch = str(selector.get("kubernetes.io/arch", ""))
    platform = f"linux/{arch}" if arch else ""
    base = Base(reference, reference, platform, f"{name}:{body.lines.get('image', line)}") if reference else None
    service = str(body.get("name", "container"))
    return container_snapshot("pod", service, f"{name}:{line}", name, base, None, env, asked, why, shm, host_ipc, [])


def _pod_shm(body: Node, spec: Node, name: str) -> Optional[Fact[int]]:
    mounts = [mapping(m) for m in sequence(body.get("volumeMounts"))]
    volume = next((m.get("name") for m in mounts if str(m.get("mountPath", "")).rstrip("/") == "/dev/shm"), None)
    if volume is None:
        return None
    for item in sequence(spec.get("volumes")):
        row = mapping(item)
        if row.get("name") == volume and isinstance(row.get("emptyDir"), Node):
            limit = row["emptyDir"].get("sizeLimit")
            size = parse_size(limit) if limit is not None else None
            return known(size, f"{name}:{row.line}") if size else not_told("/dev/shm size")
    return not_told("/dev/shm size")
