"""CTR: whether the container engine can hand GPUs to containers, and whether this container got them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Optional

from envcheck.model.finding import Evidence, Problem, Severity
from envcheck.rules.gpu_request import not_requested
from envcheck.rules.image_start import requirement_problems
from envcheck.rules.presence import nvidia_gpus
from envcheck.rules.rule import rule

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.machine import Engine
    from envcheck.model.snapshot import Snapshot

CONFIGURE = "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
START = "docker run --gpus all …   (compose: deploy.resources.reservations.devices; Kubernetes: limits nvidia.com/gpu)"
INSTALL = "install nvidia-container-toolkit (NVIDIA's repository), then: " + CONFIGURE


def _asked(snap: Snapshot) -> Optional[Severity]:
    """None (the rule's own severity) where a container with GPUs is asked for, else 'note': nobody needs it."""
    return None if snap.wants.gpus_requested else "note"


def _docker(snap: Snapshot) -> Optional[Engine]:
    """Docker on a machine with a working NVIDIA GPU; None where there is nothing to judge. Raises UnknownFact."""
    engine = snap.machine.engine.get()
    if engine is None or engine.kind != "docker":
        return None
    if snap.machine.container.find() is not None or not nvidia_gpus(snap) or snap.machine.driver.get() is None:
        return None
    return engine


def _has_runtime(engine: Engine) -> Optional[bool]:
    """Is an NVIDIA runtime registered? None: the list of runtimes isn't known."""
    return None if engine.runtimes is None else any("nvidia" in name for name in engine.runtimes)


@rule("CTR001", "gpu-not-passed-to-container", "error", cause="gpu-not-passed-to-container", rank=14)
def gpu_not_passed_to_container(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """This container was started without GPUs.

    Why: device nodes and driver libraries come from the engine at start; without them CUDA finds no device.
    How it is decided: we stand in a container that has no NVIDIA device node and no driver library. Whether the host
    has a GPU can't be seen from inside, so it is an error only where a GPU is asked for. Or: the compose service, pod
    or container asks for none, although its image or framework is made for them.
    Fix: start the container with `--gpus all` (compose: deploy.resources.reservations.devices; Kubernetes: the
    nvidia.com/gpu resource).
    Sources: NVIDIA Container Toolkit documentation; Docker documentation, resource constraints.
    """
    asked = not_requested(snap)
    if asked is not None:
        yield asked
        return
    container = snap.machine.container.get()
    if container is None or any(not gpu.lost for gpu in nvidia_gpus(snap)):
        return
    if container.gpu_devices and not snap.wants.gpu:
        return  # devices without a GPU that answers: the driver's own rules say what that is
    wanted = bool(snap.wants.gpu)
    seen = "device nodes, and no GPU that answers" if container.gpu_devices else "none"
    yield Problem(
        "this container was started without GPUs" + (", and this job needs one" if wanted else ""),
        fix=(START,) if wanted else (),
        subject=container.engine,
        severity=None if wanted else "note",
        evidence=(
            Evidence(
                "NVIDIA devices in this container", seen, container.source or snap.machine.container.source, "found"
            ),
            *([Evidence("GPU", "at least one", snap.wants.source, "needed")] if wanted else []),
        ),
    )


@rule("CTR101", "container-toolkit-missing", "error", cause="container-toolkit-missing", rank=20)
def container_toolkit_missing(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """Docker has no NVIDIA runtime: the NVIDIA Container Toolkit isn't installed.

    Why: `docker run --gpus all` ends in 'could not select device driver "" with capabilities: [[gpu]]'.
    How it is decided: Docker and a working GPU are here, the toolkit isn't, and no nvidia runtime is registered. A note
    unless a container with GPUs is asked for.
    Fix: install nvidia-container-toolkit, register it with `nvidia-ctk runtime configure`, restart Docker.
    Sources: NVIDIA Container Toolkit installation guide.
    """
    engine = _docker(snap)
    if engine is None or engine.snap or snap.machine.toolkit.get() is not None or _has_runtime(engine):
        return
    yield Problem(
        "Docker can't use the GPU: the NVIDIA Container Toolkit isn't installed",
        fix=(INSTALL,),
        subject="docker",
        severity=_asked(snap),
        evidence=(
            Evidence("NVIDIA Container Toolkit", "not installed", snap.machine.toolkit.source, "found"),
            Evidence("Docker", engine.version or "there", engine.source),
        ),
    )


@rule("CTR102", "snap-docker", "error", cause="container-runtime-snap-docker", rank=18, explains=("CTR101", "CTR103"))
def snap_docker(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """Docker is the snap package, which can't see the host's NVIDIA toolkit and driver.

    Why: a snap runs in its own mount namespace: the runtime hook and the driver libraries of the host aren't in it.
    How it is decided: the engine's program or socket belongs to snap. A note unless a container with GPUs is asked for.
    Fix: remove the snap and install Docker Engine from Docker's or the distribution's packages.
    Sources: NVIDIA Container Toolkit troubleshooting; Docker documentation, installation on Ubuntu.
    """
    engine = _docker(snap)
    if engine is None or not engine.snap:
        return
    yield Problem(
        "Docker is a snap package: it can't see the host's NVIDIA driver and toolkit",
        fix=("sudo snap remove docker, then install docker-ce (or docker.io) from packages, and: " + CONFIGURE,),
        subject="docker",
        severity=_asked(snap),
        evidence=(Evidence("Docker", "snap", engine.source, "found"),),
    )


@rule("CTR103", "container-runtime-misconfigured", "error", cause="container-runtime-misconfigured", rank=22)
def container_runtime_misconfigured(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The NVIDIA Container Toolkit is installed, and the engine isn't configured for it.

    Why: Docker uses the toolkit only as a registered runtime or by CDI specifications; else GPUs stay outside.
    How it is decided: toolkit installed, no nvidia runtime in Docker's configuration, and no CDI device known. A note
    unless a container with GPUs is asked for.
    Fix: `nvidia-ctk runtime configure`, restart the engine; for CDI `nvidia-ctk cdi generate`.
    Sources: NVIDIA Container Toolkit installation guide; CDI support.
    """
    engine = _docker(snap)
    if engine is None or engine.snap:
        return
    toolkit = snap.machine.toolkit.get()
    if toolkit is None or _has_runtime(engine) is not False or toolkit.cdi_devices:
        return
    yield Problem(
        "the NVIDIA Container Toolkit is installed, and Docker isn't configured for it",
        fix=(CONFIGURE,),
        subject="docker",
        severity=_asked(snap),
        evidence=(
            Evidence("Docker's runtimes", ", ".join(engine.runtimes or ()) or "none", engine.source, "found"),
            Evidence("runtime", "nvidia, or a CDI device", "NVIDIA Container Toolkit installation guide", "needed"),
        ),
    )


@rule(
    "CTR104",
    "image-needs-newer-driver",
    "error",
    cause="container-image-needs-newer-driver",
    rank=16,
    explains=("DRV101",),
)
def image_needs_newer_driver(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The image's NVIDIA_REQUIRE_* isn't met by this driver or GPU.

    Why: the toolkit's legacy mode refuses to start it ('requirement error: unsatisfied condition'); just-in-time CDI
    (default from toolkit 1.18) starts it, and what the requirement was for shows later.
    How it is decided: the requirement grammar of nvidia-container-cli over each GPU, the driver's CUDA, its version and
    the product's brand; then CUDA's own rules, which tell whether the requirement is stricter than needed.
    Fix: a newer driver, an image of an older CUDA, or NVIDIA_DISABLE_REQUIRE=1 where the driver runs it all the same.
    Sources: NVIDIA/libnvidia-container src/cli/dsl.c; NVIDIA Container Toolkit 1.18 release notes.
    """
    yield from requirement_problems(snap, matrix)


@rule("CTR105", "container-lost-gpu", "error", cause="container-lost-gpu-cgroup", rank=13, explains=("CTR001",))
def container_lost_gpu(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The container lost its GPU devices: systemd rewrote its cgroup rules.

    Why: after `systemctl daemon-reload` the device rules that the runtime hook added are gone ('Failed to initialize
    NVML: Unknown Error'), although the device nodes are still there.
    How it is decided: in a container with NVIDIA devices, NVML answers UNKNOWN or NO_PERMISSION.
    Fix: restart the container; for good: pass the devices (`--device /dev/nvidia0 …`), use CDI, or cgroupfs.
    Sources: NVIDIA Container Toolkit troubleshooting; NVIDIA/nvidia-docker issue 1671.
    """
    container = snap.machine.container.get()
    if container is None or not container.gpu_devices:
        return
    fault = snap.machine.driver_fault.get()
    if fault is None or fault.code not in ("UNKNOWN", "NO_PERMISSION"):
        return
    yield Problem(
        "this container has lost its GPUs: NVML answers 'Unknown Error' although the devices are here",
        fix=(
            "restart the container",
            "for good: start it with CDI (`--device nvidia.com/gpu=all`) or with --device for each /dev/nvidia* node",
        ),
        subject="container",
        evidence=(Evidence("NVML", fault.message or fault.code, fault.source, "found"),),
    )


@rule("CTR106", "docker-socket-mounted", "note", cause="docker-socket-mounted", rank=80)
def docker_socket_mounted(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The engine's socket is mounted into this container.

    Why: whoever can write to it is root on the host.
    How it is decided: /var/run/docker.sock is a socket inside a container.
    Fix: don't mount it; envcheck doesn't need it.
    Sources: Docker documentation, protecting the daemon socket.
    """
    container = snap.machine.container.get()
    if container is not None and container.docker_socket:
        yield Problem(
            "the Docker socket is mounted into this container: its users are root on the host",
            fix=("start it without -v /var/run/docker.sock",),
            subject="container",
            evidence=(Evidence("/var/run/docker.sock", "mounted", container.source, "found"),),
        )
