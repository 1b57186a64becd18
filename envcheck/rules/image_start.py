"""Does an image start on a machine, and is its requirement right: grammar, the toolkit's mode, CUDA's own rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, Optional

import msgspec

from envcheck import versions
from envcheck.model.finding import Evidence, Problem
from envcheck.rules.image_remedy import lists_branch
from envcheck.rules.requirement import Device, Verdict, collect, device_brands, evaluate

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.machine import ContainerToolkit
    from envcheck.model.snapshot import Snapshot

JIT_CDI = "1.18.0"  # from here on 'auto' means just-in-time CDI, which reads no requirement
How = Literal["native", "minor", "forward", "no"]


class Start(msgspec.Struct, frozen=True):
    """`verdict` as nvidia-container-cli gives it; `enforced`: does this machine's toolkit check it? None: not known."""

    verdict: Verdict
    enforced: Optional[bool]
    mode: str  # for a person: what decides
    runs: Optional[How]  # how the driver runs the image's CUDA; None: not known
    toolkit_source: str = ""


def devices(snap: Snapshot, matrix: Matrix) -> list[Device]:
    """What the requirement is compared with, a GPU each; one unknown GPU where none are told. Raises UnknownFact."""
    driver = snap.machine.driver.get()
    version = driver.version if driver else None
    cuda = (driver.cuda or (matrix.driver_cuda(version, "linux") if version else None)) if driver else None
    found = []
    for gpu in snap.machine.gpus.find() or ():
        if gpu.vendor != "nvidia":
            continue
        model = matrix.model_of(gpu)
        brands = device_brands(gpu.name, model.segment if model else None, version)
        found.append(Device(cuda, version, matrix.capability_of(gpu), brands))
    return list(dict.fromkeys(found)) or [Device(cuda, version)]


def enforcement(toolkit: Optional[ContainerToolkit]) -> tuple[Optional[bool], str]:
    """(is the requirement checked, by or under what)."""
    if toolkit is None:
        return None, "the toolkit's legacy mode checks it (default before 1.18), just-in-time CDI doesn't (from 1.18)"
    mode, version = toolkit.mode or "auto", versions.find(toolkit.version)
    if mode in ("legacy", "csv"):
        return True, f"the toolkit's {mode} mode checks it"
    if mode in ("cdi", "jit-cdi"):
        return False, f"the toolkit's {mode} mode doesn't check it"
    if version is None:
        return None, "the toolkit's version isn't known: before 1.18 it checks the requirement, from 1.18 on it doesn't"
    if version < versions.parse(JIT_CDI):
        return True, f"toolkit {toolkit.version} checks it (legacy mode)"
    return False, f"toolkit {toolkit.version} doesn't check it (just-in-time CDI)"


def start(snap: Snapshot, matrix: Matrix) -> Optional[Start]:
    """The start of this image on this machine; None for an image without a requirement. Raises UnknownFact."""
    if snap.stack.image.find() is None:
        return None
    requirements = collect(snap.stack.env.get())
    if not requirements:
        return None
    toolkit = snap.machine.toolkit
    enforced, mode = enforcement(toolkit.find())
    return Start(
        evaluate(requirements, devices(snap, matrix)), enforced, mode, how_it_runs(snap, matrix), toolkit.source
    )


def how_it_runs(snap: Snapshot, matrix: Matrix) -> Optional[How]:
    """How this driver runs the image's CUDA; 'forward' by the image's own compat package on datacentre GPUs."""
    cuda = snap.stack.cuda.find()
    driver = snap.machine.driver.find()
    version = driver.version if driver else None
    if not cuda or not version:
        return None
    minor = versions.minor(cuda)
    found = matrix.runs_cuda(version, minor)
    if found in ("native", "minor"):
        return "native" if found == "native" else "minor"
    if found == "no" and snap.stack.compat.known and snap.stack.compat.value is None:
        return "no"  # looked for, and not there
    listed = lists_branch(snap, matrix, version) or (snap.stack.compat.find() and matrix.forward_compat(version, minor))
    if found == "no" and listed and _datacentre(snap, matrix):
        return "forward"
    return "no" if found == "no" else None


def _datacentre(snap: Snapshot, matrix: Matrix) -> bool:
    gpus = [gpu for gpu in snap.machine.gpus.find() or () if gpu.vendor == "nvidia"]
    models = [matrix.model_of(gpu) for gpu in gpus]
    return bool(models) and all(model is not None and model.segment == "datacentre" for model in models)


def requirement_problems(snap: Snapshot, matrix: Matrix) -> Iterator[Problem]:
    """The problems of an image whose NVIDIA_REQUIRE_* this machine doesn't meet: refused, or stricter than needed.

    Raises UnknownFact where a fact that decides is unknown.
    """
    found = start(snap, matrix)
    if found is None or found.verdict.met:
        return
    requirement = found.verdict.requirement
    assert requirement is not None
    if found.verdict.met is None:
        from envcheck.model.fact import UnknownFact

        raise UnknownFact(f"{requirement.name} hangs on the {' and the '.join(found.verdict.missing)}: not told")
    driver = snap.machine.driver.get()
    version = driver.version if driver else None
    text = requirement.text if len(requirement.text) <= 60 else requirement.text[:57] + "…"
    evidence = (
        Evidence(requirement.name, text, snap.stack.env.source, "needed"),
        Evidence("driver", version or "none", snap.machine.driver.source, "found"),
        Evidence("container toolkit", found.mode, found.toolkit_source),
    )
    if found.verdict.invalid:
        yield Problem(
            f"the image's {requirement.name} has a part that the container toolkit refuses: {found.verdict.invalid}",
            fix=("Build the image without it, or run it with -e NVIDIA_DISABLE_REQUIRE=1.",),
            evidence=evidence,
            severity="note" if found.enforced is False else None,
        )
        return
    cuda = snap.stack.cuda.find()
    floor = matrix.driver_floor(versions.minor(cuda)) if cuda else None
    newer = f"Update the driver to {floor} or newer" if floor else "Update the driver"
    older = "or use an image of an older CUDA."
    if found.runs in ("minor", "forward", "native"):
        why = {
            "minor": "the driver would run it by minor-version compatibility",
            "forward": "it would run through its own cuda-compat package",
            "native": "the driver runs this CUDA",
        }[found.runs]
        # Where nothing checks, an image that would run runs: worth knowing, no more.
        severity: Literal["error", "warning", "note"] = (
            "error" if found.enforced else "note" if found.enforced is False else "warning"
        )
        yield Problem(
            f"the image's requirement is stricter than needed: driver {version} doesn't meet {_short(text)}, but {why}",
            fix=(
                "docker run -e NVIDIA_DISABLE_REQUIRE=1 …  (the check is skipped, nothing else changes)",
                f"{newer}, {older}",
            ),
            evidence=evidence,
            severity=severity,
        )
        return
    end = {
        True: "the container is refused at start",
        False: "the container starts, and fails at its first CUDA call",
        None: "refused at start in legacy mode, or it fails at its first CUDA call",
    }[found.enforced]
    yield Problem(
        f"driver {version} doesn't meet the image's {_short(text)}: {end}",
        fix=(f"{newer}, {older}",),
        evidence=evidence,
    )


def _short(text: str) -> str:
    return text.split(" ")[0]
