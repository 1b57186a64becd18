"""The resolver: from a request to the plan that satisfies it, judged by the rules before anybody writes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import msgspec

from envcheck import versions
from envcheck.errors import UnknownName, Unsatisfiable, UsageError
from envcheck.matrix.matrix import Matrix
from envcheck.model.plan import Plan
from envcheck.model.request import Request
from envcheck.resolve.candidates import Candidate, get_framework, get_releases, images, wheels
from envcheck.resolve.compose import compose_image, compose_wheels
from envcheck.resolve.constraints import Wish, possible, wishes_of
from envcheck.resolve.explain import explain
from envcheck.rules.engine import Outcome


def resolve(request: Request, matrix: Matrix) -> Plan:
    """The plan. Raises UnknownName for what the matrix doesn't have, Conflict where nothing satisfies the request."""
    check_names(request, matrix)
    if request.base == "framework" and request.flavour:
        raise UsageError("--base framework has no flavours", "Say --base cuda, or leave --flavour out.")
    wishes = wishes_of(request, matrix)
    on_wheels = list(wheels(matrix, request.framework, request.version))
    on_images = list(images(matrix, request.framework)) if request.base != "cuda" and not request.flavour else []
    image = first(on_images, wishes, request, matrix)
    wheel = first(on_wheels, [wish for wish in wishes if wish.label != "--base framework"], request, matrix)
    if image is not None and (request.base == "framework" or wheel is None or prefers_image(request)):
        return compose_image(image, wheel, _release_of(on_wheels, image), request, matrix)
    if wheel is not None and request.base != "framework":
        return compose_wheels(wheel, image, request, matrix, why=_why_wheels(request, wishes, on_images, matrix))
    every = [*on_images] if request.base == "framework" else []
    raise explain(wishes, [*every, *wheels(matrix, request.framework)], request, matrix)


def find_image(request: Request, matrix: Matrix) -> Optional[Candidate]:
    """NVIDIA's image that grants the same wishes; None where there is none."""
    free = msgspec.structs.replace(request, base="auto", flavour=None)
    return first(list(images(matrix, request.framework)), wishes_of(free, matrix), free, matrix)


def first(
    candidates: Sequence[Candidate], wishes: Sequence[Wish], request: Request, matrix: Matrix
) -> Optional[Candidate]:
    """The best candidate that grants all wishes; None if none does."""
    return next((candidate for candidate in candidates if possible(candidate, wishes, request, matrix)), None)


def prefers_image(request: Request) -> bool:
    """Does `auto` take NVIDIA's image where there is one? When release and CUDA are asked as X.Y and no patch is."""
    return bool(request.version and request.cuda) and not request.patch_asked


def check_names(request: Request, matrix: Matrix) -> None:
    """Raise UnknownName for a framework, release, CUDA or Python that there isn't."""
    framework = get_framework(matrix, request.framework)
    get_releases(matrix, framework, request.version)
    minors = matrix.cuda_minors()
    if request.cuda and not any(_begins(minor, request.cuda) for minor in minors):
        raise UnknownName("CUDA release", request.cuda, reversed(minors), "envcheck matrix show cuda")
    if request.cuda and len(versions.parse(request.cuda).release) > 2 and matrix.cuda_release(request.cuda) is None:
        known = [row.version for row in matrix.cuda]
        raise UnknownName("CUDA release", request.cuda, known, "envcheck matrix show cuda")
    if request.python:
        rows = matrix.builds_of(framework)
        found = {row.python for row in matrix.pythons} | {
            t for row in rows for t in (row.python_min, row.python_max) if t
        }
        if versions.minor(request.python) not in found:
            raise UnknownName("Python", request.python, sorted(found, key=versions.parse, reverse=True))


def _begins(minor: str, asked: str) -> bool:
    length = min(2, len(versions.parse(asked).release))
    return versions.parse(minor).release[:length] == versions.parse(asked).release[:length]


def _release_of(on_wheels: Sequence[Candidate], image: Candidate) -> Optional[Candidate]:
    """The newest release wheel of the image's X.Y for its CUDA, to name as the other choice."""
    for candidate in on_wheels:
        if candidate.release == image.release and versions.same_minor(candidate.cuda, image.cuda):
            return candidate
    return None


def _why_wheels(request: Request, wishes: Sequence[Wish], on_images: Sequence[Candidate], matrix: Matrix) -> str:
    """Why `auto` didn't take NVIDIA's image."""
    if request.base == "cuda":
        return "--base cuda"
    if request.flavour:
        return f"--flavour {request.flavour}"
    if request.patch_asked:
        return f"the release {request.version} was asked for, and NVIDIA's images carry pre-releases"
    if not prefers_image(request):
        return f"{request.framework} release wheels, as no exact pair of release and CUDA was asked for"
    pair = [wish for wish in wishes if wish.kind in ("framework", "cuda")]
    near = first(on_images, pair, request, matrix)
    words = " and ".join(wish.label for wish in pair)
    if near is None or near.image is None:
        return f"no NVIDIA image has {words}"
    lost = [wish.label for wish in wishes if wish not in pair and not possible(near, [wish], request, matrix)]
    return f"NVIDIA's image with {words} doesn't fit {' and '.join(lost) or 'the other wishes'}"


def judge_plan(plan: Plan, matrix: Matrix) -> Outcome:
    """What the rules say of the plan; raises Unsatisfiable where it would fail on the machine that was named."""
    from envcheck.rules import select_rules
    from envcheck.rules.engine import judge

    outcome = judge(plan.snapshot, matrix, select_rules((), ()))
    errors = [finding for finding in outcome.findings if finding.severity == "error"]
    if errors:
        words = "\n  ".join(f"{finding.rule}  {finding.message}" for finding in errors)
        fixes = [text for finding in errors for text in finding.fix]
        raise Unsatisfiable(f"The plan would not work:\n  {words}", "\n  ".join(fixes))
    return outcome
