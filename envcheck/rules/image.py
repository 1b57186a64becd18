"""IMG: what an image says of itself, against the machine that is to run it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from envcheck import versions
from envcheck.model.finding import Evidence, Problem
from envcheck.rules.floor import floor_evidence, needed_driver, runtimes
from envcheck.rules.image_remedy import listed_branches
from envcheck.rules.image_start import devices, how_it_runs
from envcheck.rules.requirement import DISABLE, collect, evaluate, is_disabled
from envcheck.rules.rule import rule

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot

HIDDEN = ("", "void", "none")


def _is_image(snap: Snapshot) -> bool:
    return snap.stack.image.find() is not None


@rule("IMG101", "image-architecture-differs", "error", cause="image-architecture-differs", rank=5)
def image_architecture_differs(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The image is built for another CPU architecture than the machine's.

    Why: an arm64 image on x86-64 nodes ends with 'exec format error', or crawls under emulation without its GPU.
    How: the architecture in the image's configuration (or the file's platform) against the machine's.
    Fix: take the image of the machine's architecture; NVIDIA's images carry both under one tag.
    Sources: OCI image specification (config, index).
    """
    if not _is_image(snap):
        return
    stack, machine = snap.stack.arch, snap.machine.arch
    if snap.recipe is not None and snap.recipe.files and not stack.known:
        return  # a file without a platform is built for the machine that builds it
    if stack.get() != machine.get():
        image = snap.stack.image.get()
        name = image.reference if image else "the image"
        platform = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}.get(machine.get(), machine.get())
        yield Problem(
            f"the image is built for {stack.get()}, the machine is {machine.get()}",
            fix=(f"docker pull --platform {platform} {name}   (if the tag offers it)",),
            subject=name,
            evidence=(
                Evidence("image architecture", stack.get(), stack.source, "found"),
                Evidence("machine architecture", machine.get(), machine.source, "needed"),
            ),
        )


@rule("IMG102", "image-end-of-life", "warning", cause="image-end-of-life", rank=80)
def image_end_of_life(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The image's CUDA release is past its end of life, or its tag is scheduled for deletion.

    Why: NVIDIA deletes end-of-life tags of nvidia/cuda after six months: the next build fails to pull it.
    How: NVIDIA_CUDA_END_OF_LIFE in the image's environment, or the tag's status in the matrix.
    Fix: a newer patch release of the same CUDA minor, which needs no other driver.
    Sources: supported-tags.md of NVIDIA's container images.
    """
    image = snap.stack.image.find()
    if image is None:
        return
    env = snap.stack.env.find() or {}
    row = matrix.cuda_image(image.reference) if "nvidia/cuda" in image.reference else None
    marked = env.get("NVIDIA_CUDA_END_OF_LIFE") == "1"
    listed = row is not None and "EOL" in row.status
    if not marked and not listed:
        snap.stack.env.get()  # unread, it may still hold the mark
        return
    source = snap.stack.env.source if marked else f"matrices/cuda_images.toml, {row.status_as_of if row else ''}"
    said = "NVIDIA_CUDA_END_OF_LIFE=1" if marked else (row.status if row else "")
    cuda = snap.stack.cuda.find()
    newest = matrix.newest_patch(versions.minor(cuda)) if cuda else None
    newer = f"Take CUDA {newest} of the same minor" if newest and newest != cuda else "Take a newer CUDA release"
    yield Problem(
        f"{image.reference} is past its end of life: its tag may be deleted any day",
        fix=(f"{newer}, or keep a copy of the image in your own registry, by digest.",),
        subject=image.reference,
        evidence=(Evidence("status", said, source, "found"),),
    )


@rule("IMG103", "image-older-than-gpu", "warning", cause="image-older-than-gpu", rank=40)
def image_older_than_gpu(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The image's CUDA release is older than the GPU: nothing in it can have been compiled for it.

    Why: a toolkit makes machine code only for GPUs that it knows. What runs, runs by JIT from PTX: slowly at the first
    start, and cuDNN, cuBLAS and NCCL of that release were never tuned for the GPU, or don't run on it.
    How: CUDA of the image against the first release that compiles for the GPU's capability; frameworks whose kernels
    are known are judged by those alone.
    Fix: an image with at least that CUDA.
    Sources: matrices/capabilities.toml.
    """
    if not _is_image(snap):
        return
    if any(package.capabilities for package in snap.stack.packages.find() or ()):
        return
    cuda = snap.stack.cuda.get()
    if not cuda:
        return
    seen = set()
    for gpu in snap.machine.gpus.get():
        capability = matrix.capability_of(gpu)
        if gpu.vendor != "nvidia" or capability is None or capability in seen:
            continue
        seen.add(capability)
        row = matrix.capability(capability)
        if (
            row is None
            or row.first_cuda is None
            or versions.parse(versions.minor(cuda)) >= versions.parse(row.first_cuda)
        ):
            continue
        yield Problem(
            f"the image's CUDA {cuda} is older than the {gpu.name}, for which CUDA {row.first_cuda} is the first",
            fix=(f"Take an image with CUDA {row.first_cuda} or newer.",),
            subject=gpu.name,
            evidence=(
                Evidence("CUDA of the image", cuda, snap.stack.cuda.source, "found"),
                Evidence(f"first CUDA for {versions.sm(capability)}", row.first_cuda, row.source, "needed"),
            ),
        )


@rule("IMG104", "image-capabilities-missing", "error", cause="image-capabilities-missing", rank=20)
def image_capabilities_missing(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """NVIDIA_DRIVER_CAPABILITIES leaves out a part of the driver that is needed.

    Why: the container toolkit mounts only the libraries of the capabilities that are named: without 'compute' there is
    no libcuda, without 'utility' no nvidia-smi and no NVML, without 'video' no encoder or decoder.
    How: the variable as the image, compose file or pod sets it; unset means utility,compute.
    Fix: -e NVIDIA_DRIVER_CAPABILITIES=compute,utility, and what else is used.
    Sources: container toolkit documentation, docker-specialized.
    """
    if not _is_image(snap):
        return
    env = snap.stack.env.get()
    told = env.get("NVIDIA_DRIVER_CAPABILITIES")
    if told is None or not told.strip() or not (snap.wants.gpu or "CUDA_VERSION" in env):
        return
    have = {word.strip() for word in told.split(",")}
    if "all" in have:
        return
    wanted = {"compute": "CUDA programs find no libcuda", "utility": "nvidia-smi and NVML are missing"}
    wanted.update(
        {word: f"{word} was asked for" for word in ("video", "graphics", "display") if word in snap.wants.features}
    )
    for word in sorted(set(wanted) - have):
        yield Problem(
            f"NVIDIA_DRIVER_CAPABILITIES={told} leaves out {word!r}: {wanted[word]}",
            fix=(f"-e NVIDIA_DRIVER_CAPABILITIES={','.join(sorted(have | {word}))}",),
            subject=word,
            evidence=(
                Evidence("NVIDIA_DRIVER_CAPABILITIES", told, snap.stack.env.source, "found"),
                Evidence("capability", word, "container toolkit", "needed"),
            ),
            severity="error" if word != "utility" else "warning",
        )


@rule("IMG105", "image-hides-gpus", "warning", cause="image-hides-gpus", rank=25)
def image_hides_gpus(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """NVIDIA_VISIBLE_DEVICES hides the GPUs that are wanted.

    Why: 'void' or an empty value gives the container no GPU at all, 'none' the driver's files without a device.
    `docker run --gpus` and the Kubernetes device plugin set the variable themselves and win over the image's; with
    `--runtime=nvidia` alone the image's (or the compose file's) value counts.
    How: the variable of the image, or of the compose file or pod over it, where a GPU is wanted.
    Fix: NVIDIA_VISIBLE_DEVICES=all, or don't set it.
    Sources: container toolkit documentation, docker-specialized.
    """
    if not _is_image(snap):
        return
    env = snap.stack.env.get()
    told = env.get("NVIDIA_VISIBLE_DEVICES")
    if told is None or told.strip() not in HIDDEN or not (snap.wants.gpu or snap.wants.gpus_requested):
        return
    yield Problem(
        f"NVIDIA_VISIBLE_DEVICES={told or '(empty)'} hides the GPUs that this container asks for",
        fix=("Set NVIDIA_VISIBLE_DEVICES=all, or leave it out.",),
        evidence=(Evidence("NVIDIA_VISIBLE_DEVICES", told or "(empty)", snap.stack.env.source, "found"),),
    )


@rule("IMG106", "image-requirement-disabled", "note", cause="image-requirement-disabled", rank=85)
def image_requirement_disabled(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """NVIDIA_DISABLE_REQUIRE switches off a check that this driver wouldn't pass.

    Why: the variable only skips the check; whether the driver runs the image's CUDA is another question, which the
    driver rules answer.
    How: the image's NVIDIA_REQUIRE_* are evaluated for this driver as if the check were on.
    Fix: nothing, where the image runs; else a newer driver or an older image.
    Sources: libnvidia-container, nvidia-container-toolkit.
    """
    if not _is_image(snap):
        return
    env = snap.stack.env.get()
    if not is_disabled(env):
        return
    requirements = collect({name: value for name, value in env.items() if name != DISABLE})
    if requirements and evaluate(requirements, devices(snap, matrix)).met is False:
        yield Problem(
            f"{DISABLE} is set: the toolkit's check, which this driver wouldn't pass, is skipped",
            evidence=(Evidence(DISABLE, env[DISABLE], snap.stack.env.source, "found"),),
        )


@rule("IMG107", "forward-compat-used", "note", cause="forward-compat-used", rank=85)
def forward_compat_used(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The image runs on this driver only through its own cuda-compat package.

    Why: the driver is older than the image's CUDA major, and NVIDIA's table lists the pair, on datacentre GPUs. The
    container toolkit has to put the image's compat libcuda before the host's: 1.17.4 left that off by default, 1.17.5
    and newer do it by a hook, 1.18.0 again failed to (1.18.1 is right).
    How: the driver's branch and the image's CUDA in matrices/forward_compat.toml, and the GPUs' segment.
    Fix: nothing, as long as the toolkit does so; a newer driver makes it unnecessary.
    Sources: CUDA compatibility guide; container toolkit release notes.
    """
    if not _is_image(snap):
        return
    driver = snap.machine.driver.get()
    if driver is None or how_it_runs(snap, matrix) != "forward":
        return
    compat = snap.stack.compat.get()
    yield Problem(
        f"CUDA {snap.stack.cuda.get()} runs on driver {driver.version} only through the image's cuda-compat {compat}",
        evidence=(
            Evidence("cuda-compat", str(compat), snap.stack.compat.source, "found"),
            Evidence("driver", driver.version or "", snap.machine.driver.source, "found"),
        ),
    )


@rule("IMG108", "driver-not-told", "warning", cause="driver-not-told", rank=75)
def driver_not_told(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The machine that was named has GPUs, and nobody said which driver runs them.

    Why: a cloud type tells GPUs, memory and fabric; its driver is that of the image it boots. Whether the CUDA of this
    stack runs there hangs on it, so the machine can't be called right, only bound to a condition.
    How: GPUs told and driver not, for an image or a file that brings CUDA.
    A note where every branch that NVIDIA supports runs it, else a warning.
    Fix: say it (--driver 535, or its full version), or see to it that the machines have at least the one named.
    Sources: CUDA release notes (driver table).
    """
    machine = snap.machine
    if machine.driver.known or not machine.gpus.find() or not (_is_image(snap) or snap.recipe):
        return
    for runtime in runtimes(snap, matrix):
        needed = needed_driver(snap, matrix, runtime.cuda)
        if needed is None:
            continue
        below = versions.branch(needed)
        branches = [text for text in listed_branches(snap, matrix) if versions.branch(text) < below]
        also = f", or a datacentre branch: {', '.join(f'{b}+' for b in branches)}" if branches else ""
        yield Problem(
            f"the driver isn't told: CUDA {runtime.cuda} of {runtime.whose} needs {needed} or newer{also}",
            fix=("say which: --driver VERSION   (--driver-range says all that will do)",),
            subject=runtime.whose,
            evidence=(
                Evidence(f"CUDA of {runtime.whose}", runtime.cuda, runtime.source, "found"),
                floor_evidence(snap, matrix, runtime.cuda),
            ),
            severity="note" if _all_supported_run(runtime.cuda, matrix) else None,
        )
        return


def _all_supported_run(cuda: str, matrix: Matrix) -> bool:
    """Does every Linux branch that NVIDIA still supported, when its row was checked, run this CUDA?"""
    supported = [r for r in matrix.branches if r.platform == "linux" and r.eol and r.eol[:7] > r.checked[:7]]
    return bool(supported) and all(matrix.runs_cuda(str(r.branch), cuda) in ("native", "minor") for r in supported)


RULES = (
    image_architecture_differs,
    image_end_of_life,
    image_older_than_gpu,
    image_capabilities_missing,
    image_hides_gpus,
    image_requirement_disabled,
    forward_compat_used,
    driver_not_told,
)
