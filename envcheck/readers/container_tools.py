"""Container engines in a paste: docker info, nvidia-container-cli, nvidia-ctk, docker run, kubectl events."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from envcheck.model.machine import Container, ContainerToolkit, Engine
from envcheck.model.stack import Image
from envcheck.readers.draft import Draft
from envcheck.readers.lines import Line

NAME = "container tools"
_SERVER = re.compile(r"^\s*(?:Server Version|Docker version|Version):?\s+v?(\d+\.\d+[\w.+-]*)")
_INFO = re.compile(
    r"^\s*(Server Version|Runtimes|Default Runtime|Cgroup Driver|Cgroup Version|CDI spec directories|Docker Root Dir|"
    r"Security Options|rootless|runc version|Operating System|Kernel Version|Architecture):\s*(.*)$"
)
_CTK = re.compile(r"(?:NVIDIA Container (?:Toolkit CLI|Runtime)|nvidia-ctk)(?: version)? v?(\d+\.\d+\.\d+)")
_CLI = re.compile(r"^cli-version:\s*(\d+\.\d+\.\d+)")
_NVRM = re.compile(r"^NVRM version:\s*(\d{3}\.[\d.]+)")
_CUDA = re.compile(r"^CUDA version:\s*(\d+\.\d+)")
_BANNER = re.compile(r"^CUDA Version (\d+\.\d+)\.\d")  # what the entry point of NVIDIA's images prints
_RUN = re.compile(r"\b(docker|podman|nerdctl|nvidia-docker)2? (?:container )?(?:run|create)\b(.*)")
_GPUS = re.compile(
    r"--gpus[ =]|--runtime[ =]\"?nvidia|NVIDIA_VISIBLE_DEVICES=(?!none|void)|--device[ =]nvidia\.com/|nvidia-docker|/dev/nvidia\d"  # noqa: E501
)
_IMAGE = re.compile(r"(?<![\w/.:=-])((?:[\w.-]+(?::\d+)?/)?(?:[\w.-]+/)*[\w.-]+:[\w][\w.-]*)(?=$|[\s\"'`,])")
_POD_IMAGE = re.compile(r'Container image "([^"]+)"')
_SNAP = re.compile(
    r"/var/snap/docker|/snap/docker|\bsnap (?:install|list|info) docker|docker\s+\S+\s+\d+\s+latest/stable\s+canonical"
)
_CUDA_IMAGE = re.compile(r"^(?:[\w.]+/)?nvidia/cuda[a-z-]*:(\d+\.\d+)")


def recognises(text: str) -> bool:
    """By the tools' names."""
    low = text.lower()
    return any(
        word in low
        for word in (
            "docker",
            "podman",
            "nvidia-container",
            "nvidia-ctk",
            "containerd",
            "kubelet",
            "nvcr.io",
            "nvrm version",
            "cli-version",
            "nerdctl",
            "container",
        )
    )


def read(lines: Sequence[Line], draft: Draft) -> None:
    """Commands tell what was asked for, the rest what is there."""
    engine: dict[str, Any] = {}
    for line in lines:
        text = line.text
        if "run" in text or "create" in text:
            _run(text, line, draft)
        if (info := _INFO.match(text)) is not None:
            _info(info.group(1), info.group(2).strip(), engine, draft, line.source)
        elif text.lstrip().startswith("Docker version") and (version := _SERVER.match(text)) is not None:
            engine.setdefault("version", version.group(1).rstrip(","))
            engine.setdefault("source", line.source)
        elif (ctk := _CTK.search(text) or _CLI.match(text)) is not None:
            draft.put("machine", "toolkit", ContainerToolkit(ctk.group(1), source=line.source), line.source)
        elif (nvrm := _NVRM.match(text)) is not None and "Kernel Module" not in text:
            draft.add_driver(nvrm.group(1), line.source)
        elif (cuda := _CUDA.match(text)) is not None and draft.driver is not None:
            draft.add_driver(None, line.source, cuda.group(1))
        elif text.startswith("CUDA Version ") and (banner := _BANNER.match(text)) is not None:
            draft.put("stack", "cuda", banner.group(1), line.source)
            draft.put("machine", "container", Container("unknown", source=line.source), line.source)
        elif (pod := _POD_IMAGE.search(text)) is not None:
            _image(pod.group(1), line.source, draft)
        if "snap" in text and _SNAP.search(text):
            engine["snap"] = True
            engine.setdefault("source", line.source)
    if engine:
        draft.put(
            "machine",
            "engine",
            Engine("docker", **{"source": "docker info", **engine}),
            engine.get("source", "docker info"),
        )


def _info(name: str, value: str, engine: dict[str, Any], draft: Draft, source: str) -> None:
    key = {"Server Version": "version", "Default Runtime": "default_runtime", "Cgroup Driver": "cgroup_driver"}.get(
        name
    )
    if key and value:
        engine.setdefault(key, value)
        engine.setdefault("source", source)
    elif name == "Runtimes" and value:
        engine.setdefault("runtimes", tuple(value.split()))
        engine.setdefault("source", source)
    elif name == "Cgroup Version" and value.isdigit():
        engine.setdefault("cgroup_version", int(value))
    elif name == "Docker Root Dir" and "/snap/" in value:
        engine["snap"] = True
    elif name == "Security Options" and "rootless" in value:
        engine["rootless"] = True
    elif name == "runc version" and (version := re.match(r"v?(\d+\.\d+\.\d+)", value)) is not None:
        draft.put("machine", "runc", version.group(1), source)
    elif name == "Kernel Version" and "microsoft" in value.lower():
        draft.put("machine", "wsl", 2, source)


def _run(text: str, line: Line, draft: Draft) -> None:
    match = _RUN.search(text)
    if match is None:
        return
    arguments = match.group(2)
    # A command that goes on below says nothing of what it leaves out.
    if _GPUS.search(text):
        draft.want(line.source, gpus_requested=True)
    elif not text.rstrip().endswith("\\") and "--" in arguments and line.shell:
        draft.want(line.source, gpus_requested=False)
    image = next(
        (found for found in _IMAGE.findall(arguments) if not re.match(r"\d+:\d+$|[A-Za-z]:|/|\.", found)), None
    )
    if image and "=" not in image:
        _image(image, line.source, draft)


def _image(reference: str, source: str, draft: Draft) -> None:
    draft.put("stack", "image", Image(reference), source)
    draft.put("machine", "container", Container("docker" if "line" in source else "unknown", source=source), source)
    cuda = _CUDA_IMAGE.match(reference)
    if cuda:
        draft.put("stack", "cuda", cuda.group(1), source)
