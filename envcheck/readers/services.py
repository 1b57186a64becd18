"""What compose, Kubernetes and devcontainer files share: telling them apart, sizes, and a container's snapshot."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Optional

import msgspec

from envcheck.model.fact import Fact, known
from envcheck.model.machine import Machine
from envcheck.model.recipe import Base, Recipe
from envcheck.model.snapshot import Origin, Snapshot, Wants
from envcheck.model.stack import Image, Stack

OpenFile = Callable[[str], Optional[str]]
DEFAULT_SHM = 64 << 20  # Docker's and Kubernetes'
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)


def recognises(text: str, name: str) -> Optional[str]:
    """'compose', 'pod' or 'devcontainer'; None for anything else."""
    last = name.rpartition("/")[2].lower()
    if last in ("devcontainer.json", ".devcontainer.json"):
        return "devcontainer"
    if re.fullmatch(r"(docker-)?compose([.\-][\w.-]+)?\.ya?ml", last):
        return "compose"
    if re.search(r"(?m)^services:\s*(#.*)?$", text) and re.search(r"(?m)^\s+(image|build):", text):
        return "compose"
    if re.search(r"(?m)^apiVersion:\s*\S", text) and re.search(r"(?m)^kind:\s*\w", text) and "containers:" in text:
        return "pod"
    if text.lstrip().startswith(("{", "/")) and re.search(
        r'"(runArgs|customizations|postCreateCommand|features)"', text
    ):
        return "devcontainer"
    return None


def parse_size(text: Any) -> Optional[int]:
    """'8g', '64M', '16Gi', 1073741824 to bytes; None for what is none."""
    if isinstance(text, int):
        return text
    match = SIZE.fullmatch(str(text).strip())
    if not match:
        return None
    unit = 1000 if match.group(2).isupper() and not match.group(3) and "b" not in str(text).lower() else 1024
    power = "kmgt".index(match.group(2).lower()) + 1 if match.group(2) else 0
    return int(float(match.group(1)) * unit**power)


def container_snapshot(
    kind: str,
    service: str,
    source: str,
    name: str,
    base: Optional[Base],
    inner: Optional[Snapshot],
    environment: dict[str, str],
    asked: bool,
    why: str,
    shm: Fact[int],
    ipc_host: bool,
    remarks: list[str],
) -> Snapshot:
    """A container by what its file says and what the Dockerfile that it builds says."""
    stack = inner.stack if inner else Stack()
    if base is not None and "$" in base.reference:
        remarks = [*remarks, f"{base.source}: image {base.written} hangs on a variable (--build-arg NAME=VALUE)"]
        base = msgspec.structs.replace(base, reference="")
    env = {**(stack.env.find() or {}), **environment}
    stack = msgspec.structs.replace(
        stack,
        image=known(Image(reference=base.reference), base.source) if base and base.reference else stack.image,
        env=known(env, source) if env else stack.env,
        complete=known(False, source),
    )
    recipe = inner.recipe if inner and inner.recipe else Recipe(base=base)
    return Snapshot(
        origin=Origin(kind, f"{name} ({service})", (kind,)),
        machine=Machine(shm_bytes=shm),
        stack=stack,
        wants=Wants(
            gpu=True if asked else None,
            gpus_requested=asked,
            compile=inner.wants.compile if inner else None,
            source=why,
        ),
        remarks=(*remarks, *(inner.remarks if inner else ())),
        recipe=msgspec.structs.replace(
            recipe,
            files=tuple(dict.fromkeys((name, *recipe.files))),
            service=service,
            gpus_asked=asked,
            asked_by=why,
            ipc_host=ipc_host,
        ),
    )
