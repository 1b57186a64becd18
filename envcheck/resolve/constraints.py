"""Constraints: each wish of a request as a question to a candidate, answered by the matrix as the rules would."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

import msgspec

from envcheck import versions
from envcheck.matrix.builds import matches
from envcheck.matrix.matrix import Matrix
from envcheck.matrix.rows import FrameworkImage
from envcheck.model.machine import Gpu, Machine
from envcheck.model.request import Request
from envcheck.resolve.bases import find_base
from envcheck.resolve.candidates import Candidate, pythons_of

# In the order in which people give way: what is named first is kept longest.
KINDS = ("framework", "cuda", "python", "cudnn", "gpu", "driver", "base")


class Wish(msgspec.Struct, frozen=True):
    """One wish: its kind, its words ('CUDA 12.4') and its value (for a GPU its compute capability)."""

    kind: str
    label: str
    value: str


def wishes_of(request: Request, matrix: Matrix) -> tuple[Wish, ...]:
    """The wishes that a request states; what it leaves open is none."""
    found: list[Wish] = []
    if request.version:
        found.append(Wish("framework", f"{request.framework} {request.version}", request.version))
    for kind, word, value in (
        ("cuda", "CUDA", request.cuda),
        ("python", "Python", request.python),
        ("cudnn", "cuDNN", request.cudnn),
    ):
        if value:
            found.append(Wish(kind, f"{word} {value}", value))
    found.extend(_gpu_wishes(request.machine.gpus.find() or (), matrix))
    driver = request.machine.driver.find()
    if driver is not None and driver.version:
        found.append(Wish("driver", f"driver {driver.version}", driver.version))
    if request.base == "framework":
        found.append(Wish("base", "--base framework", "framework"))
    if request.flavour:
        found.append(Wish("base", f"--flavour {request.flavour}", "cuda"))
    return tuple(found)


def _gpu_wishes(gpus: Iterable[Gpu], matrix: Matrix) -> list[Wish]:
    found: dict[str, Wish] = {}
    for gpu in gpus:
        capability = matrix.capability_of(gpu)
        if gpu.vendor == "nvidia" and capability:
            label = gpu.name if gpu.name.startswith("sm_") else f"{gpu.name} ({versions.sm(capability)})"
            found.setdefault(capability, Wish("gpu", label, capability))
    return list(found.values())


def satisfies(candidate: Candidate, wish: Wish, request: Request, matrix: Matrix) -> bool:
    """Does the candidate grant the wish? An unknown property doesn't."""
    if wish.kind == "framework":
        return _is_release(candidate, wish.value)
    if wish.kind == "cuda":
        return _is_cuda(candidate, wish.value)
    if wish.kind == "python":
        return python_wanted(wish.value) in pythons_of(candidate, matrix)
    if wish.kind == "cudnn":
        return _is_cudnn(candidate, wish.value, matrix)
    if wish.kind == "gpu":
        return runs_on_gpu(candidate, wish.value, matrix)
    if wish.kind == "driver":
        return runs_on_driver(candidate, wish.value, request, matrix)
    return (candidate.image is not None) == (wish.value == "framework")


def possible(candidate: Candidate, wishes: Iterable[Wish], request: Request, matrix: Matrix) -> bool:
    """Does the candidate grant all wishes, and is there a base image to put it on?"""
    wanted = tuple(wishes)
    if not all(satisfies(candidate, wish, request, matrix) for wish in wanted):
        return False
    if {"gpu", "driver"} <= {wish.kind for wish in wanted} and undriven(wanted, request, matrix):
        return False
    if candidate.image is not None:
        return True
    python = next((python_wanted(wish.value) for wish in wanted if wish.kind == "python"), None)
    cuda = next((wish.value for wish in wanted if wish.kind == "cuda"), None)
    return find_base(candidate, _relaxed(request, wanted), matrix, python=python, cuda=cuda) is not None


def _relaxed(request: Request, wishes: tuple[Wish, ...]) -> Request:
    """The request without what isn't wished for any more."""
    kinds = {wish.kind for wish in wishes}
    machine = request.machine
    if "driver" not in kinds:
        machine = msgspec.structs.replace(machine, driver=Machine().driver)
    return msgspec.structs.replace(
        request,
        flavour=request.flavour if "base" in kinds else None,
        cudnn=request.cudnn if "cudnn" in kinds else None,
        machine=machine,
    )


def undriven(wishes: Iterable[Wish], request: Request, matrix: Matrix) -> list[tuple[Gpu, DriverSpan]]:
    """The wished GPUs that the wished driver's branch is too old or too new for, each with the branches that fit."""
    wanted = tuple(wishes)
    driver = next(wish.value for wish in wanted if wish.kind == "driver")
    capabilities = {wish.value for wish in wanted if wish.kind == "gpu"}
    found = []
    for gpu in request.machine.gpus.find() or ():
        capability = matrix.capability_of(gpu)
        if capability in capabilities:
            span = driver_span(gpu, capability, matrix)
            if not span.holds(versions.branch(driver)):
                found.append((gpu, span))
    return found


class DriverSpan(msgspec.Struct, frozen=True):
    """The driver branches that drive a GPU; None: open or unknown."""

    first: Optional[int] = None
    last: Optional[int] = None

    def holds(self, branch: int) -> bool:
        """Does the branch drive the GPU, as far as is known?"""
        return not ((self.first and branch < self.first) or (self.last and branch > self.last))

    def __str__(self) -> str:
        if self.first and self.last:
            return f"driver {self.first} to {self.last}"
        return f"driver {self.first} or newer" if self.first else f"driver {self.last} or older"


def driver_span(gpu: Gpu, capability: str, matrix: Matrix) -> DriverSpan:
    """By the model's first branch and its architecture's last one."""
    model, row = matrix.model_of(gpu), matrix.capability(capability)
    return DriverSpan(model.min_branch if model else None, row.last_branch if row else None)


def python_wanted(text: str) -> str:
    """X.Y of a Python wish."""
    return versions.minor(text)


def _is_release(candidate: Candidate, wanted: str) -> bool:
    if candidate.image is None:
        return matches(candidate.version, wanted)
    found, asked = versions.parse(candidate.version), versions.parse(wanted)
    return len(asked.release) <= 2 and found.release[: len(asked.release)] == asked.release


def _is_cuda(candidate: Candidate, wanted: str) -> bool:
    have, asked = versions.parse(candidate.cuda).release, versions.parse(wanted).release
    if candidate.any_minor:
        return have[0] == asked[0] and have[:2] <= (*asked, 0)[:2] if len(asked) > 1 else have[0] == asked[0]
    if candidate.image is not None and len(asked) > 2:
        return have[:3] == asked[:3]
    return have[: min(2, len(asked))] == asked[:2]


def _is_cudnn(candidate: Candidate, wanted: str, matrix: Matrix) -> bool:
    if candidate.install is not None and candidate.install.libraries == "system":
        return any(
            row.cudnn and _starts(row.cudnn, wanted) for row in matrix.cuda_images if _same(row.cuda, candidate.cuda)
        )
    return candidate.cudnn is not None and _starts(candidate.cudnn, wanted)


def _same(left: str, right: str) -> bool:
    return versions.parse(left).release[:2] == versions.parse(right).release[:2]


def _starts(have: str, wanted: str) -> bool:
    asked = versions.parse(wanted).release
    found = versions.find(have)
    return found is not None and found.release[: len(asked)] == asked


def runs_on_gpu(candidate: Candidate, capability: str, matrix: Matrix) -> bool:
    """Has the candidate code for the GPU? By its compiled list; where that isn't known, by what its CUDA compiles."""
    row = candidate.build or candidate.image
    assert row is not None
    if row.capabilities is not None:
        return matrix.kernels(row.capabilities, capability) is not None
    if candidate.build is not None:
        siblings = matrix.builds_of(candidate.framework, candidate.version)
        if any(other.capabilities for other in siblings):
            return False  # the release's other builds are known, this one isn't: it won't be guessed
    low = candidate.build.min_capability if candidate.build else None
    if low and versions.capability(capability) < versions.capability(low):
        return False
    return matrix.compiles_for(capability, candidate.cuda) is True


def runs_on_driver(candidate: Candidate, driver: str, request: Request, matrix: Matrix) -> bool:
    """Natively, by minor-version compatibility, or (an image, on a datacentre GPU) by its own cuda-compat."""
    if matrix.runs_cuda(driver, candidate.cuda) in ("native", "minor"):
        return True
    return candidate.image is not None and forward_compatible(candidate.image, driver, request, matrix)


def forward_compatible(image: FrameworkImage, driver: str, request: Request, matrix: Matrix) -> bool:
    """Does the image's cuda-compat carry its CUDA over the driver, on every GPU that was named?

    By the branches that the image's release notes admit for datacentre GPUs, or by NVIDIA's table.
    """
    models = [matrix.model_of(gpu) for gpu in request.machine.gpus.find() or ()]
    if not models or not all(model is not None and model.segment == "datacentre" for model in models):
        return False
    have = versions.parse(driver)
    admitted = any(have.major == floor.major and have >= floor for floor in map(versions.parse, image.driver_branches))
    return admitted or bool(image.cuda and matrix.forward_compat(driver, image.cuda))
