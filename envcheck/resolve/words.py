"""The words of a plan: why a choice was made, what to beware of, where it runs, and the choice not taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from envcheck import versions
from envcheck.matrix.matrix import Matrix
from envcheck.matrix.rows import Build, Install
from envcheck.model.machine import Machine
from envcheck.model.plan import Commands
from envcheck.model.request import Request
from envcheck.resolve.bases import Base
from envcheck.resolve.candidates import Candidate
from envcheck.resolve.constraints import driver_span, wishes_of

__all__ = ["Commands"]


def cuda_of(candidate: Candidate, base: Base) -> str:
    """The CUDA of the plan: the build's, or the base's where the build runs on any of its major."""
    return versions.minor(base.row.cuda) if candidate.any_minor else candidate.cuda


def why_flavour(flavour: str, install: Install, request: Request) -> str:
    """Why this flavour."""
    if request.flavour:
        return f"--flavour {request.flavour}"
    if flavour == "devel":
        return "a package compiles CUDA code when it is installed"
    if install.libraries == "system":
        return "the wheels take CUDA and cuDNN from the image"
    return "the wheels bring their own CUDA libraries"


def why_cuda(build: Build, request: Request) -> str:
    """Why this CUDA."""
    if request.cuda:
        return "asked for"
    return "the default index's build" if build.default_on else "the newest build that fits"


def why_python(base: Base, request: Request) -> str:
    """Why this Python, and at what price."""
    asked = "asked for; " if request.python else ""
    if base.source.origin == "apt":
        until = base.distro.supported_until
        return f"{asked}{_title(base.distro.name)}'s own (standard support of this Ubuntu until {until})"
    return (
        f"{asked}no {_title(base.distro.name)} package: a pinned uv {base.python.uv} (hash checked) fetches this build"
        " and checks it; it gets no updates from Ubuntu"
    )


def _title(distro: str) -> str:
    return distro.replace("ubuntu", "Ubuntu ")


def wheel_cautions(
    candidate: Candidate, base: Base, request: Request, left_out: list[str], compiled: tuple[str, ...], matrix: Matrix
) -> Iterator[str]:
    """What the reader of a plan of wheels must know."""
    install = candidate.install
    assert install is not None
    wanted = versions.minor(cuda_of(candidate, base))
    have = versions.minor(base.row.cuda)
    if base.retired:
        yield (
            f"the only fitting tag, {base.row.tag}, is end of life ({base.row.status_as_of}): NVIDIA deletes such "
            "tags, and then the pull fails; keep a copy in a registry of yours"
        )
    if have != wanted:
        own = [row for row in matrix.cuda_images if versions.minor(row.cuda) == wanted]
        reason = "end of life and get deleted" if own and all(_retired(row.status) for row in own) else "not on record"
        newer = versions.parse(have) > versions.parse(wanted)
        stricter = f" (and asks for a driver of CUDA {have} where NVIDIA_REQUIRE_CUDA is enforced)" if newer else ""
        yield (
            f"images of CUDA {wanted} in this flavour are {reason}, so the base is {have}'s: the wheels bring their "
            f"own CUDA {wanted}, the base lends only Ubuntu{stricter}"
        )
    if base.row.flavour != "devel" and compiled:
        yield f"{', '.join(compiled)} compiles CUDA code, which needs --flavour devel"
    if install.caution:
        yield install.caution
    yield from left_out
    yield from _unknown_kernels(candidate, request, matrix)


def image_cautions(candidate: Candidate, request: Request, matrix: Matrix) -> Iterator[str]:
    """What the reader of a plan with NVIDIA's image must know."""
    row = candidate.image
    assert row is not None
    if "direct" not in row.evidence and "built-on" not in row.evidence:
        yield "the image's versions are inferred from its month's other images; --verify asks the image itself"
    driver = request.machine.driver.find()
    told = driver.version if driver is not None else None
    if told and matrix.runs_cuda(told, candidate.cuda) not in ("native", "minor"):
        yield f"driver {told} runs it only by the image's own cuda-compat, on datacentre GPUs, through its entrypoint"
    yield from _unknown_kernels(candidate, request, matrix)


def _unknown_kernels(candidate: Candidate, request: Request, matrix: Matrix) -> Iterator[str]:
    row = candidate.build or candidate.image
    gpus = [wish.label for wish in wishes_of(request, matrix) if wish.kind == "gpu"]
    if row is not None and row.capabilities is None and gpus:
        yield (
            f"its list of compiled architectures isn't on record: CUDA {versions.minor(candidate.cuda)} makes code for "
            f"{', '.join(gpus)}, --verify on such a GPU proves it"
        )


def _retired(status: str) -> bool:
    return status.startswith("unsupported")


def runs_on(candidate: Candidate, matrix: Matrix, machine: Machine) -> str:
    """The drivers that run it on `machine`, whose GPUs may need a newer one than CUDA does, and the GPUs."""
    spans = [driver_span(gpu, matrix.capability_of(gpu) or "", matrix) for gpu in machine.gpus.find() or ()]
    first = max((span.first for span in spans if span.first), default=0)
    parts = [_drivers(candidate, matrix, first)]
    row = candidate.build or candidate.image
    if row is not None and row.capabilities:
        parts.append(f"GPUs {' '.join(_code(text) for text in row.capabilities)}")
    elif candidate.build is not None and candidate.build.min_capability:
        parts.append(f"GPUs from {versions.sm(candidate.build.min_capability)}")
    return "; ".join(filter(None, parts))


def _code(text: str) -> str:
    return f"{versions.sm(text.partition('+')[0])}{'+PTX' if text.endswith('+PTX') else ''}"


def _drivers(candidate: Candidate, matrix: Matrix, first: int = 0) -> str:
    if candidate.image is not None and candidate.image.driver_min:
        branches = ", ".join(f"{text}+" for text in candidate.image.driver_branches)
        also = f", or a datacentre branch {branches}" if branches else ""
        return f"driver >= {candidate.image.driver_min}{also}"
    if candidate.build is not None and candidate.build.driver_min:
        return f"driver >= {candidate.build.driver_min}"
    native, minor = matrix.driver_floor(candidate.cuda), matrix.minor_floor(candidate.cuda)
    if first and minor and versions.branch(minor) < first:
        minor = str(first)
    if first and native and versions.branch(native) < first:
        native = str(first)
    if native and minor and versions.branch(minor) < versions.branch(native):
        return f"driver >= {native}, or >= {minor} by minor-version compatibility"
    floor = native or minor
    return f"driver >= {floor}" if floor else ""


def image_instead(image: Optional[Candidate], request: Request) -> str:
    """How to get NVIDIA's image instead of the wheels."""
    if image is None or image.image is None:
        return ""
    return f"NVIDIA's image instead: --base framework ({image.image.reference}, {image.framework} {image.version})"


def wheels_instead(wheel: Optional[Candidate], release: Optional[Candidate], image: Candidate) -> str:
    """How to get release wheels instead of NVIDIA's image, if they fit."""
    if wheel is None and release is not None:
        return f"release wheels ({release.framework} {release.version}) don't fit the other wishes"
    if wheel is None:
        cuda = versions.minor(image.cuda)
        return f"there are no release wheels of {image.framework} {image.release} for CUDA {cuda}"
    return f"release wheels instead: --{wheel.framework} {wheel.version}"
