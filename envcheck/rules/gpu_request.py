"""What a file that starts a container asks of the engine: GPUs, and shared memory for what uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from envcheck.model.finding import Evidence, Problem

if TYPE_CHECKING:
    from envcheck.model.snapshot import Snapshot

HOW = {
    "compose": "add to the service:  gpus: all   (or deploy.resources.reservations.devices with capabilities: [gpu])",
    "pod": "add to the container:  resources: {limits: {nvidia.com/gpu: 1}}",
    "devcontainer": 'add "runArgs": ["--gpus", "all"]  (or "hostRequirements": {"gpu": true})',
    "container": "start it anew with --gpus all",
}


DEFAULT_SHM = 64 * 2**20
SHM = {
    "compose": "add to the service:  ipc: host   (or shm_size: 8gb)",
    "pod": "mount an emptyDir {medium: Memory, sizeLimit: 8Gi} at /dev/shm",
    "devcontainer": 'add "--ipc=host" (or "--shm-size=8g") to "runArgs"',
    "container": "start it anew with --ipc=host (or --shm-size=8g)",
}


def small_shm(snap: Snapshot) -> Optional[Problem]:
    """The problem of a container with GPUs and a framework that gets the engine's default /dev/shm; None otherwise."""
    recipe, shm = snap.recipe, snap.machine.shm_bytes
    if recipe is None or not recipe.gpus_asked or recipe.ipc_host or snap.origin.kind not in SHM:
        return None
    builds = [package for package in snap.stack.packages.find() or () if package.cuda]
    if not shm.known or shm.get() > DEFAULT_SHM or not builds:
        return None
    who = recipe.service or snap.origin.name
    return Problem(
        f"{who} gets {shm.get() // 2**20} MB of /dev/shm: data loaders and NCCL run out of it",
        fix=(SHM[snap.origin.kind],),
        subject=who,
        evidence=(
            Evidence("/dev/shm", f"{shm.get() // 2**20} MB", shm.source, "found"),
            Evidence("framework", f"{builds[0].name} {builds[0].version or ''}".strip(), builds[0].source),
        ),
    )


def not_requested(snap: Snapshot) -> Optional[Problem]:
    """The problem of a service, pod or container that is made for GPUs and doesn't ask for any; None otherwise.

    Where Docker's default runtime is NVIDIA's, the image's own NVIDIA_VISIBLE_DEVICES does the asking.
    """
    recipe = snap.recipe
    if recipe is None or recipe.gpus_asked is not False or snap.origin.kind not in HOW:
        return None
    engine = snap.machine.engine.find()
    if engine is not None and (engine.default_runtime or "").startswith("nvidia"):
        return None
    builds = [p for p in snap.stack.packages.find() or () if p.cuda and p.variant != "cpu"]
    if not snap.wants.gpu and not builds:
        return None
    image = snap.stack.image.find()
    what = (
        f"{builds[0].name} {builds[0].version} (CUDA {builds[0].cuda})"
        if builds
        else (image.reference if image else "")
    )
    source = builds[0].source if builds else snap.wants.source
    who = recipe.service or snap.origin.name
    return Problem(
        f"{who} is started without GPUs, and {what} is made for them",
        fix=(HOW[snap.origin.kind],),
        subject=who,
        severity="error" if snap.origin.kind == "container" else "warning",
        evidence=(
            Evidence("GPUs asked for", "none", recipe.asked_by, "found"),
            Evidence("made for GPUs", what, source, "needed"),
        ),
    )
