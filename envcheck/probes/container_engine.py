"""The container engine, by its files and its own socket; the engine's command is not run."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Optional

from envcheck.model.fact import Fact, known, unknown
from envcheck.model.machine import Engine
from envcheck.probes.container import find_container_engine
from envcheck.probes.container_toolkit import find_toolkit
from envcheck.probes.package_db import PackageDatabase, upstream
from envcheck.probes.probe import Scene, Told
from envcheck.probes.tree import Tree, Unreadable, shown

SOCKET = "/var/run/docker.sock"
SOCKET_SECONDS = 1.0
SOCKET_CAP = 4 * 2**20
_BIN = ("/usr/bin", "/usr/sbin", "/usr/local/bin")
# kind, program, packages
_ENGINES = (
    ("docker", "dockerd", ("docker-ce", "docker.io", "moby-engine")),
    ("podman", "podman", ("podman",)),
    ("cri-o", "crio", ("cri-o",)),
    ("containerd", "containerd", ("containerd.io", "containerd")),
    ("apptainer", "apptainer", ()),
    ("apptainer", "singularity", ()),
)
_SNAP = "/snap/docker/current"


def inspect(scene: Scene) -> Iterator[Told]:
    """Yield engine, toolkit and runc. In a container they are the host's, and out of sight."""
    tree = scene.tree
    inside = find_container_engine(tree, scene.env)[0]
    try:
        engine = _engine(scene)
    except Unreadable as failure:
        yield "machine.engine", unknown(f"container engine: {failure}")
    else:
        if inside and engine is None:
            yield (
                "machine.engine",
                unknown(f"container engine: we stand in a container ({inside}), its engine is outside"),
            )
        else:
            yield "machine.engine", known(engine, engine.source if engine else "program folders")
    try:
        toolkit = find_toolkit(scene)
    except Unreadable as failure:
        yield "machine.toolkit", unknown(f"NVIDIA Container Toolkit: {failure}")
    else:
        if inside and toolkit is None:
            yield "machine.toolkit", unknown("NVIDIA Container Toolkit: we stand in a container, it is outside")
        else:
            yield "machine.toolkit", known(toolkit, toolkit.source if toolkit else "program folders, package database")
    yield "machine.runc", _runc(tree, scene.database, bool(inside))


def _engine(scene: Scene) -> Optional[Engine]:
    tree, database = scene.tree, scene.database
    if tree.exists(f"{_SNAP}/bin/dockerd"):
        told = tree.find_text(f"{_SNAP}/meta/snap.yaml", 65536) or ""
        snapped = re.search(r"^version: '?([^'\n]+)", told, re.MULTILINE)
        settings = _settings(tree, "/var/snap/docker/current/config/daemon.json")
        return _docker(scene, snapped.group(1) if snapped else None, settings, snap=True, source=_SNAP)
    for kind, name, packages in _ENGINES:
        program = next((f"{folder}/{name}" for folder in _BIN if tree.exists(f"{folder}/{name}")), None)
        found = database.find(*packages) if packages else None
        if not program and not (found and kind == "docker"):
            continue
        version = upstream(found[0]) if found else None
        source = program or (found[1] if found else "")
        if kind == "docker":
            return _docker(scene, version, _settings(tree, "/etc/docker/daemon.json"), snap=False, source=source)
        return Engine(kind, version, cgroup_version=_cgroup_version(tree), source=source)
    return None


def _settings(tree: Tree, path: str) -> tuple[Optional[Mapping[str, Any]], str]:
    """daemon.json as it is: an empty dict where there is none, None where it is no JSON object."""
    text = tree.read_text(path, 1 << 20)
    if text is None or not text.strip():
        return {}, path
    import json

    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return None, path
    return (told, path) if isinstance(told, dict) else (None, path)


def _docker(
    scene: Scene, version: Optional[str], settings: tuple[Optional[Mapping[str, Any]], str], *, snap: bool, source: str
) -> Engine:
    live = _ask_docker(scene) if scene.tree.live else None
    if live:
        return _from_info(live, snap=snap)
    told, path = settings
    if told is None:
        return Engine("docker", version, snap, source=f"{source}; {path} is no JSON")
    runtimes = told.get("runtimes") if isinstance(told.get("runtimes"), dict) else {}
    features = told.get("features")
    driver = next((str(o).partition("=")[2] for o in _list(told.get("exec-opts")) if "cgroupdriver=" in str(o)), None)
    return Engine(
        "docker",
        version,
        snap,
        runtimes=tuple(
            sorted({"runc", *(shown(str(name)) for name in (runtimes if isinstance(runtimes, dict) else {}))})
        ),
        default_runtime=shown(str(told.get("default-runtime", "runc"))),
        cgroup_driver=driver,
        cgroup_version=_cgroup_version(scene.tree),
        cdi=features.get("cdi") if isinstance(features, dict) and isinstance(features.get("cdi"), bool) else None,
        source=f"{source}, {path}",
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _ask_docker(scene: Scene) -> Optional[dict[str, Any]]:
    """The engine's /info over its own socket, by HTTP/1.0 so that the end of the answer is the end of the stream."""
    if not scene.tree.there(SOCKET):
        return None
    import json
    import socket

    ends = time.monotonic() + min(SOCKET_SECONDS, scene.left)
    data = bytearray()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(max(0.01, ends - time.monotonic()))
            stream.connect(SOCKET)
            stream.sendall(b"GET /info HTTP/1.0\r\nHost: docker\r\n\r\n")
            while len(data) < SOCKET_CAP:
                stream.settimeout(max(0.01, ends - time.monotonic()))
                part = stream.recv(65536)
                if not part:
                    break
                data += part
                if time.monotonic() > ends:
                    return None
        head, _, body = bytes(data).partition(b"\r\n\r\n")
        told = json.loads(body) if b" 200 " in head.split(b"\r\n")[0] else None
    except (OSError, ValueError, RuntimeError, RecursionError):  # RuntimeError: sockets are forbidden in this process
        return None
    return told if isinstance(told, dict) else None


def _from_info(told: Mapping[str, Any], *, snap: bool) -> Engine:
    runtimes = told.get("Runtimes")
    group = str(told.get("CgroupVersion", ""))
    return Engine(
        "docker",
        shown(str(told.get("ServerVersion") or "")) or None,
        snap,
        rootless=any("rootless" in str(option) for option in _list(told.get("SecurityOptions"))),
        runtimes=tuple(sorted(shown(str(name)) for name in runtimes)) if isinstance(runtimes, dict) else None,
        default_runtime=shown(str(told.get("DefaultRuntime") or "")) or None,
        cgroup_driver=shown(str(told.get("CgroupDriver") or "")) or None,
        cgroup_version=int(group) if group.isdigit() else None,
        cdi=bool(told["CDISpecDirs"]) if "CDISpecDirs" in told else None,
        source="/var/run/docker.sock",
    )


def _cgroup_version(tree: Tree) -> Optional[int]:
    try:
        if tree.exists("/sys/fs/cgroup/cgroup.controllers"):
            return 2
        return 1 if tree.exists("/sys/fs/cgroup/devices") or tree.exists("/sys/fs/cgroup/memory") else None
    except Unreadable:
        return None


def _runc(tree: Tree, database: PackageDatabase, inside: bool) -> Fact[Any]:
    """With the distribution's revision: distributions mend an old version without raising its number."""
    found = database.find("runc")
    if found:
        return known(found[0], found[1])
    try:
        there = any(tree.exists(path) for path in ("/usr/bin/runc", "/usr/sbin/runc", "/usr/local/sbin/runc"))
    except Unreadable as failure:
        return unknown(f"runc version: {failure}")
    if there:
        return unknown("runc version: the program is there, and no file tells its version")
    return (
        unknown("runc version: we stand in a container, runc is outside") if inside else known(None, "program folders")
    )
